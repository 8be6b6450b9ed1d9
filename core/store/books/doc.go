// Package books is what a book says to those who show or measure it and do not import it, such as pages, commands
// and metrics: its numbers, and that what it keeps can't be reset.
//
// A book keeps what calendar limits of a store have used outside the store. Package quota has one, in PostgreSQL. What
// it needs of a store to count with it is in package counting.
package books
