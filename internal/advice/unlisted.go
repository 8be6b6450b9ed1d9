package advice

import "github.com/weblimit/weblimit/keyfuncs"

// lookUnlisted advises if a request came through an address that may be a proxy, and that the
// strategy in the limit's key takes for the client.
// Of a public address nothing is said: anybody can send headers from there.
func (l *Limit) lookUnlisted(r keyfuncs.Request) {
	header, addr, unlisted := l.Key.Unlisted(r) // the header that the strategy reads
	if !unlisted {
		return
	}
	name := forwardedIn(r, header)
	if name == "" || !l.mayApply(r) || l.advisor.bypasses(r) {
		return
	}
	if !addr.IsValid() {
		l.advisor.say(Unlisted, "requests with "+name+" come over a unix socket, which has no address to list: ClientIP finds no client, and all requests share one bucket; use keyfuncs.HopCount")
		return
	}
	l.advisor.say(Unlisted, "requests with "+name+" come through "+addr.String()+", which ClientIP does not list as a proxy: if it is one, all clients behind it share one bucket; list it")
}
