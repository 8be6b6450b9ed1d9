package clients

// client is a row of the table in docs/headers.md.
type client struct {
	name    string // its package's name, or what the test sends its requests with
	version string // where the version is: a file and a package in it, or the oldest version
	runner  runner
	after   string    // what it does with Retry-After
	fields  [5]string // what it does with the fields of each dialect
}

// What a client does with a field.
const (
	reads   = "reads"   // its values are what was sent
	waits   = "waits"   // it comes back in time, with one request
	ignores = "–"       // it comes back as if the field were not there
	nan     = "NaN"     // it reads no number
	reset   = "misread" // it reads a time that was not sent
)

// clients are the rows, by what is known of each.
var clients = []client{
	{"structured-headers", "npm", runner{}, ignores, [5]string{reads, reads, reads, reads, reads}},
	{"ratelimit-header-parser", "npm", runner{}, ignores, [5]string{nan, reads, reads, reads, reads}},
	{"got", "npm", inNode, waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"axios-retry", "npm", inNode, waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"undici RetryAgent", "npm", inNode, waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"ky", "npm", inNode, waits, [5]string{ignores, ignores, waits, waits, waits}},
	{"superagent", "npm", inNode, ignores, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", inGo("go-retryablehttp", retryable), waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"backoff.RetryAfter", "github.com/cenkalti/backoff/v5", inGo("backoff", withBackoff), waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"resty", "github.com/go-resty/resty/v2", inGo("resty", withResty), ignores, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"go-github", "github.com/google/go-github/v75", inGo("go-github", withGithub), ignores, [5]string{ignores, ignores, ignores, waits, reset}},
	{"curl --retry", "7.66", withCurl, waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
	{"urllib3", "1.26", inPython, waits, [5]string{ignores, ignores, ignores, ignores, ignores}},
}
