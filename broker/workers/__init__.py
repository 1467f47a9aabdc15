"""Other processes and threads: what they are asked, how they answer, how they are watched."""
