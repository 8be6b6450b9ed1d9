package stdhttp

// StaleHeaders returns what [ClearValidators] removes, for an adapter whose
// responses have no http.Header. It is for reading.
func StaleHeaders() []string { return stale[:] }
