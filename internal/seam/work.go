package seam

// Work is a request that a core.Load measures. Its methods are safe for concurrent use.
type Work interface {
	// Wait notes that the request waits for its client until Resume is called as often.
	Wait()

	// Resume notes that a wait has ended.
	Resume()

	// End counts the request out. The first call counts.
	End()

	// Forget counts the request out and ignores how long it took: its handler has taken
	// over the connection.
	Forget()
}
