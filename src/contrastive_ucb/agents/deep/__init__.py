"""The deep learner: Rainbow with SPR, CURL and the UCB bonus as settings."""
