package seam

// AskError says why questions can't be decided together.
type AskError struct {
	Ask  int // the question that it is about
	Text string
}

func (e *AskError) Error() string { return "weblimit: " + e.Text }
