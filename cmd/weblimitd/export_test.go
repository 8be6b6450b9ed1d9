package main

// Command is the program, for tests of what it says before it serves.
var Command = command
