"""Brings jobs and providers together: submit, choose, rent, run, account, give back."""
