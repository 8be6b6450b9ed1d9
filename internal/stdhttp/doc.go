// Package stdhttp holds what the adapters over net/http share: the request that package keyfuncs
// reads, the decision in its context, the denial, and how a request ends.
package stdhttp
