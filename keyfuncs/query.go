package keyfuncs

// Query limits by the value of a query parameter. The key is "query.q:books". It is hashed if
// the name suggests a secret or the value is long or odd (see the package comment). Whitespace
// around the value is removed. Names are case-sensitive.
//
// The key is [Missing] if the parameter is missing or empty. It is [Ambiguous] if it occurs more
// than once: frameworks differ in which one they read.
//
// Err reports a name that is not a token, is longer than 64 bytes, or contains "#" or "|".
//
// # Security
//
// The client chooses the value, and so has a fresh bucket for each: combine it with a limit by
// [ClientIP]. For credentials use [APIKey], which hashes them whatever their name is.
func Query(name string) Func {
	if problem := checkName("query parameter", name); problem != "" {
		return Func{err: nameError("Query", name, problem)}
	}
	p := newEncoder(prefixQuery + name)
	f := single(p, name+" query parameter", func(r Request) (string, Presence) { return readQuery(r, name) })
	f.lack = &lack{what: name + " query parameter"}
	return f
}
