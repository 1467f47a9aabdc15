"""Other processes and threads: their start, their commands and answers, the watch over them."""
