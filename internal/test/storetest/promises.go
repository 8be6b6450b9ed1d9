package storetest

import "testing"

func runPromises(t *testing.T, newStore Factory, sequences uint64) {}
