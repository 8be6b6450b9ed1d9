package spelling

import "strings"

// Plural returns a noun as it stands behind a number: "1 policy", "2 policies".
func Plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return noun
	}
	if stem, ok := strings.CutSuffix(noun, "cy"); ok {
		return stem + "cies"
	}
	return noun + "s"
}
