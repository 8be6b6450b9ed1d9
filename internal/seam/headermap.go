package seam

// HeaderMap is an http.Header, or any map of its kind, to write a decision to without
// copying: core writes to the map itself.
type HeaderMap map[string][]string

// Get returns the first value of name, which must be in canonical form.
func (h HeaderMap) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Values returns all values of name, which must be in canonical form.
func (h HeaderMap) Values(name string) []string { return h[name] }

// Add appends a value of name, which must be in canonical form.
func (h HeaderMap) Add(name, value string) { h[name] = append(h[name], value) }

// Set replaces the values of name, which must be in canonical form.
func (h HeaderMap) Set(name, value string) { h[name] = []string{value} }

// Del removes name, which must be in canonical form.
func (h HeaderMap) Del(name string) { delete(h, name) }

// Unwritten is a header that has none of the fields that core writes, so that it need not look for
// those of other limiters. Names are in canonical form.
type Unwritten interface {
	Get(name string) string
	Set(name, value string)

	// Append adds a field that is not there yet, with a value without line breaks.
	Append(name, value string)
}
