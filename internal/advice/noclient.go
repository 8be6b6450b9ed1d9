package advice

import "github.com/weblimit/weblimit/keyfuncs"

// lookNoClient advises if a listed proxy does not name the client of a request.
func (l *Limit) lookNoClient(r keyfuncs.Request) {
	if header := l.Key.Unnamed(r); header != "" && l.mayApply(r) && !l.advisor.bypasses(r) {
		l.advisor.say(NoClient, "a proxy named in ClientIP sends a request without "+header+": such requests share a bucket, and a client that sends the header itself is believed; have the proxy set it on every request, and exempt its own health checks")
	}
}
