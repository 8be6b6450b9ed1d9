package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Value reads the text of a setting.
type Value interface {
	// Set reads a text. Its error does not repeat a secret.
	Set(text string) error
}

// String is a Value that takes any text.
type String string

// Set implements [Value].
func (v *String) Set(text string) error { *v = String(text); return nil }

// Bool is a Value that is true or false.
type Bool bool

// Set implements [Value].
func (v *Bool) Set(text string) error {
	switch text {
	case "true":
		*v = true
	case "false":
		*v = false
	default:
		return fmt.Errorf("%q must be true or false", text)
	}
	return nil
}

// Choice is a Value that is one of several words.
type Choice struct {
	Word string
	Of   []string
}

// Set implements [Value].
func (v *Choice) Set(text string) error {
	if !slices.Contains(v.Of, text) {
		return fmt.Errorf("%q must be one of %s", text, strings.Join(v.Of, ", "))
	}
	v.Word = text
	return nil
}

// Duration is a Value within bounds.
type Duration struct {
	time.Duration
	Min, Max time.Duration
}

// Set implements [Value].
func (v *Duration) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration such as 5s or 1m30s", text)
	}
	if d < v.Min || d > v.Max {
		return fmt.Errorf("%q must be from %v to %v", text, v.Min, v.Max)
	}
	v.Duration = d
	return nil
}

// Int is a Value within bounds.
type Int struct {
	N, Min, Max int
}

// Set implements [Value].
func (v *Int) Set(text string) error {
	n := 0
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' || len(text) > 12 {
			return fmt.Errorf("%q is no whole number", text)
		}
		n = n*10 + int(text[i]-'0')
	}
	if text == "" || n < v.Min || n > v.Max {
		return fmt.Errorf("%q must be a number from %d to %d", text, v.Min, v.Max)
	}
	v.N = n
	return nil
}

// Float is a Value above 0 and at most Max.
type Float struct {
	N, Max float64
}

// Set implements [Value].
func (v *Float) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n <= v.Max) {
		return fmt.Errorf("%q must be a number above 0 and at most %v", text, v.Max)
	}
	v.N = n
	return nil
}

// List is a Value of texts with commas between them.
type List []string

// Set implements [Value].
func (v *List) Set(text string) error {
	*v = nil
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return fmt.Errorf("%q has an empty part", text)
		}
		*v = append(*v, part)
	}
	return nil
}
