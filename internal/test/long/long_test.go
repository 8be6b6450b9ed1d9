package long

import "testing"

// Not parallel: it changes the environment.
func TestLongRunsAreAskedFor(t *testing.T) {
	for value, want := range map[string]int{"": 3, "0": 3, "1": 3000} {
		t.Setenv(variable, value)
		if got := Rounds(3, 3000); got != want || Run() != (want == 3000) {
			t.Errorf("%s=%q: %d rounds, long %v; want %d", variable, value, got, Run(), want)
		}
	}
}
