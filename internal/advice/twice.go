package advice

// lookTwice advises if the limiter has decided the same request before.
func (a *Advisor) lookTwice(s Seen) {
	if s.Twice {
		a.say(Twice, "one limiter decides a request twice, and charges it twice; is its middleware installed in two places?")
	}
}
