"""The answers: plain values as JSON has them, from a view and the question's parameters. No web server in here."""
