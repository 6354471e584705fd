"""The record types of questions, answers and scores."""
