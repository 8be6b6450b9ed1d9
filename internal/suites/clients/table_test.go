package clients

// client is a row of the table in docs/use/headers.md.
type client struct {
	name   string // its package's name, or what the test sends its requests with
	source string // npm, a Go module, or the oldest version of what comes with the system
	runner runner
	after  string    // what it does with Retry-After
	fields [5]string // what it does with the fields of each dialect
	bound  string    // what it does if Retry-After is more than a bound of its own
}

// What a client does with a field.
const (
	reads   = "reads"       // its values are what was sent
	waits   = "waits"       // it comes back in time, with one request
	ignores = "–"           // it comes back as if the field were not there
	nan     = "NaN"         // it reads no number
	wrong   = "misreads it" // it reads a time that was not sent
)

// What a client does if it has a bound on waiting.
const (
	givesUp = "gives up"
	early   = "comes back early"
)

// loop is the client of docs/use/headers.md.
const loop = "fetch in a loop"

// clients are the rows, by what is known of each.
var clients = []client{
	{"structured-headers", "npm", runner{}, ignores, [5]string{reads, reads, reads, reads, reads}, ""},
	{"ratelimit-header-parser", "npm", runner{}, ignores, [5]string{nan, reads, reads, reads, reads}, ""},
	{"got", "npm", inNode, waits, [5]string{ignores, ignores, ignores, ignores, ignores}, givesUp},
	{"axios-retry", "npm", inNode, waits, [5]string{ignores, ignores, ignores, ignores, ignores}, ""},
	{"undici RetryAgent", "npm", inNode, waits, [5]string{ignores, ignores, ignores, ignores, ignores}, early},
	{"ky", "npm", inNode, waits, [5]string{ignores, ignores, waits, waits, waits}, early},
	{"superagent", "npm", inNode, ignores, [5]string{ignores, ignores, ignores, ignores, ignores}, ""},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", inGo("go-retryablehttp", retryable), waits, [5]string{ignores, ignores, ignores, ignores, ignores}, ""},
	{"backoff.RetryAfter", "github.com/cenkalti/backoff/v5", inGo("backoff", withBackoff), waits, [5]string{ignores, ignores, ignores, ignores, ignores}, ""},
	{"resty", "github.com/go-resty/resty/v2", inGo("resty", withResty), ignores, [5]string{ignores, ignores, ignores, ignores, ignores}, ""},
	{"go-github", "github.com/google/go-github/v75", inGo("go-github", withGithub), ignores, [5]string{ignores, ignores, ignores, waits, wrong}, ""},
	{"curl --retry", "7.88", withCurl, waits, [5]string{ignores, ignores, ignores, ignores, ignores}, givesUp},
	{"urllib3", "1.26", inPython, waits, [5]string{ignores, ignores, ignores, ignores, ignores}, ""},
}
