// Package stdhttp is what the adapters over net/http share: the request as
// package keyfuncs reads it, the decision's place in it, and the denial.
package stdhttp
