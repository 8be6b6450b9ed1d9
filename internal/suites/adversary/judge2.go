package adversary

import (
	"fmt"
	"net/http"
)

// connection2 compares the visits of an HTTP/2 connection with its streams. Streams run at
// the same time, so the oracle only knows how many of them fit.
func (j *judge) connection2(requests []request2, visits []*Visit) *wrong {
	j.sent = len(requests)
	left := visits
	for i := range requests {
		r := &requests[i]
		at := -1
		for k, v := range left {
			if v.method == r.method && v.target == r.target {
				at = k
				break
			}
		}
		if at < 0 {
			if r.sure && j.end != resets && j.end != leaves && !j.framework.Dialect.itself(&r.message) {
				return wrongf("not served", "stream %d has not reached the application: %s %q", r.stream, r.method, r.target)
			}
			continue
		}
		v := left[at]
		left = append(append([]*Visit{}, left[:at]...), left[at+1:]...)
		c := &caller{message: &r.message, dialect: j.framework.Dialect, peer: j.peer, visit: v}
		if w := j.visit2(c); w != nil {
			w.text = fmt.Sprintf("stream %d: %s", r.stream, w.text)
			return w
		}
	}
	if len(left) > 0 {
		return wrongf("a request that nobody sent", "%s %q has reached the application", left[0].method, left[0].target)
	}
	return j.sums(visits)
}

// visit2 judges one request by itself.
func (j *judge) visit2(c *caller) *wrong {
	v := c.visit
	j.doubtful = false
	if v.ran > 1 {
		return wrongf("run twice", "%d handlers", v.ran)
	}
	if v.ran == 0 && len(v.asked) == 0 && j.unrouted(v) {
		return nil
	}
	wants, denial, free := j.wants(c)
	switch {
	case v.ran == 0 && len(v.asked) == 0 && v.status == http.StatusBadRequest && j.doubtful:
		return nil
	case free && len(v.asked) > 0:
		return wrongf("a bypass that is counted", "it is exempt, and is counted for %v", v.buckets())
	case free:
		return nil
	case denial != 0:
		return j.denied(v, denial)
	}
	if w := j.asked(wants, v); w != nil {
		return w
	}
	if len(v.asked) > 0 && !v.asked[0].charged {
		if v.ran > 0 {
			return wrongf("run though denied", "it has run %s, and was charged nothing", v.route)
		}
		return j.status(v, http.StatusTooManyRequests)
	}
	if route, known := c.route(); known && route != routeNone && v.ran == 0 {
		return wrongf("not run", "it is allowed, and %s has not run; status %d", route, v.status)
	}
	j.charge(v)
	return nil
}

// sums judges all requests together.
func (j *judge) sums(visits []*Visit) *wrong {
	taken := map[bucket]int64{}
	for _, v := range visits {
		for _, a := range v.asked {
			if a.charged {
				taken[a.bucket] += a.cost
			}
		}
	}
	for b, n := range taken {
		r := j.setup.rule(b.limit)
		if r.refunds || r.estimate { // what one gives back another may take
			continue
		}
		if n > r.quota {
			return wrongf("beyond the quota", "%v: %d of %d were taken", b, n, r.quota)
		}
	}
	if len(j.setup.rules) > 1 || j.setup.hangUps {
		return nil
	}
	for _, v := range visits {
		for _, a := range v.asked {
			if quota := j.setup.rule(a.limit).quota; !a.charged && taken[a.bucket]+a.cost <= quota {
				return wrongf("denied too early", "%v: %s %q is denied, and %d of %d are taken at the end", a.bucket, v.method, v.target, taken[a.bucket], quota)
			}
		}
	}
	return nil
}
