"""From run folders to a page: read, tables, figures, one self-contained HTML file."""
