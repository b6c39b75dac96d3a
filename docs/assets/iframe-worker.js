// Search runs in a web worker, which browsers refuse for pages opened from a file. On such pages
// this class replaces Worker: the script runs in a hidden frame with the same messages.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.url = new URL(url, location.href).href;
      this.waiting = [];
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.start();
    }

    start() {
      const inner = this.frame.contentWindow;
      inner.document.open();
      inner.document.write("<!doctype html><html><head></head><body></body></html>");
      inner.document.close();
      const run = (source) =>
        new Promise((resolve, reject) => {
          const script = inner.document.createElement("script");
          script.src = source;
          script.onload = resolve;
          script.onerror = () => reject(new Error(`could not load ${source}`));
          inner.document.head.append(script);
        });
      inner.importScripts = (...sources) =>
        sources.reduce((done, source) => done.then(() => run(source)), Promise.resolve());
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        if (this.onmessage) this.onmessage(event);
        this.dispatchEvent(event);
      };
      run(this.url).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.deliver(data));
      });
    }

    deliver(data) {
      const inner = this.frame.contentWindow;
      inner.dispatchEvent(new inner.MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.ready) this.deliver(data);
      else this.waiting.push(data);
    }

    terminate() {
      this.frame.remove();
    }
  }
  window.IFrameWorker = IFrameWorker; // the search worker looks for this name in its parent
  window.Worker = IFrameWorker;
}
