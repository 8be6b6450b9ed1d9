package advice

import "fmt"

// ScalePanics is called for a panic of the limit's Scale function.
func (l *Limit) ScalePanics(p any) {
	l.advisor.say(Scale, fmt.Sprintf("limit %q: its Scale function panicked: %v", l.Name, p))
}
