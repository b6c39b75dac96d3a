"""Deep agents: Rainbow with SPR, CURL and the UCB bonus as settings."""
