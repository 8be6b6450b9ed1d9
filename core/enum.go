package core

import (
	"fmt"
	"slices"
	"strings"
)

// The texts of the types that are chosen from a list, for logs, flags and files. Each is the name
// of its constant, except that of a [Reason].
var (
	outages      = []string{Local: "Local", Allow: "Allow", Deny: "Deny"}
	missingKeys  = []string{ShareBucket: "ShareBucket", DenyRequest: "DenyRequest", SkipLimit: "SkipLimit"}
	headersWhens = []string{Always: "Always", NearLimit: "NearLimit", OnDenial: "OnDenial", Never: "Never"}
)

// textOf returns the text of a value, or one with its number.
func textOf[T ~uint8](value T, kind string, texts []string) string {
	if int(value) < len(texts) {
		return texts[value]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(value))
}

// readText sets a value to that of a text.
func readText[T ~uint8](to *T, kind string, texts []string, text []byte) error {
	i := slices.Index(texts, string(text))
	if i < 0 {
		return fmt.Errorf("weblimit: %.40q is no %s, want one of %s", text, kind, strings.Join(texts, ", "))
	}
	*to = T(i)
	return nil
}

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the text of String.
func (r *Reason) UnmarshalText(text []byte) error { return readText(r, "Reason", reasons[:], text) }

// String returns the name of the constant, such as "Local".
func (o OutageAction) String() string { return textOf(o, "OutageAction", outages) }

// MarshalText returns the text of String.
func (o OutageAction) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the text of String, for flags and files.
func (o *OutageAction) UnmarshalText(text []byte) error {
	return readText(o, "OutageAction", outages, text)
}

// String returns the name of the constant, such as "ShareBucket".
func (m MissingKey) String() string { return textOf(m, "MissingKey", missingKeys) }

// MarshalText returns the text of String.
func (m MissingKey) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the text of String, for flags and files.
func (m *MissingKey) UnmarshalText(text []byte) error {
	return readText(m, "MissingKey", missingKeys, text)
}

// String returns the name of the constant, such as "Always".
func (w HeadersWhen) String() string { return textOf(w, "HeadersWhen", headersWhens) }

// MarshalText returns the text of String.
func (w HeadersWhen) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads the text of String, for flags and files.
func (w *HeadersWhen) UnmarshalText(text []byte) error {
	return readText(w, "HeadersWhen", headersWhens, text)
}

// String returns the names of the dialects, such as "Draft11|XRateLimit". It is "" for the zero
// value, which means the default where it is configured.
func (h Headers) String() string {
	var names []string
	for i, name := range dialectNames {
		if h&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if unknown := h &^ allHeaders; unknown != 0 {
		names = append(names, fmt.Sprintf("Headers(%d)", uint8(unknown)))
	}
	return strings.Join(names, "|")
}

// MarshalText returns the text of String.
func (h Headers) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads the text of String, for flags and files.
func (h *Headers) UnmarshalText(text []byte) error {
	var all Headers
	if len(text) > 0 {
		for name := range strings.SplitSeq(string(text), "|") {
			var bit uint8
			if err := readText(&bit, "dialect of Headers", dialectNames, []byte(name)); err != nil {
				return err
			}
			all |= 1 << bit
		}
	}
	*h = all
	return nil
}
