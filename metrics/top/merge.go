package top

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Merge returns what several snapshots hold together: counts of a client are added up, and of its
// last denials the latest counts. Snapshots must be of different instances. It changes none of
// them, and nil ones are left out.
func Merge(snapshots ...*Snapshot) *Snapshot {
	merged := new(Snapshot)
	limits := make(map[string][]*Limit)
	for _, s := range snapshots {
		if s == nil {
			continue
		}
		merged.Instances = append(merged.Instances, s.Instances...)
		merged.Uncounted = plus(merged.Uncounted, s.Uncounted)
		for i := range s.Limits {
			limits[s.Limits[i].Name] = append(limits[s.Limits[i].Name], &s.Limits[i])
		}
	}
	slices.SortFunc(merged.Instances, func(a, b Instance) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.At.Compare(b.At))
	})
	for _, several := range limits {
		merged.Limits = append(merged.Limits, mergeLimits(several))
	}
	slices.SortFunc(merged.Limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	return merged
}

// mergeLimits merges what instances know of one limit. Where they say different things, as of the numbers while another
// configuration is rolled out, the first of them counts that knows, and Versions shows that there are several.
func mergeLimits(several []*Limit) Limit {
	merged := *several[0]
	for _, l := range several[1:] {
		if merged.Quota == 0 { // it has decided in outages only
			merged.Algorithm, merged.Quota, merged.Burst, merged.Window, merged.Shadow = l.Algorithm, l.Quota, l.Burst, l.Window, l.Shadow
		}
		if merged.Numbers.Quota == 0 {
			merged.Numbers = l.Numbers
		}
		merged.Versions = mergeVersions(slices.Clip(merged.Versions), l.Versions)
	}
	merged.Keys, merged.KeysBefore = mergeKinds(several), mergeBefore(several)
	n := 0
	for _, l := range several {
		n += len(l.Clients)
	}
	clients, place := make([]Client, 0, n), make(map[string]int, n)
	uses, seconds, minutes := make([]*Use, 0, len(several)), make([]*Series, 0, len(several)), make([]*Series, 0, len(several))
	for _, l := range several {
		for _, c := range l.Clients {
			if i, known := place[c.Key]; known {
				clients[i].add(&c)
				continue
			}
			place[c.Key] = len(clients)
			clients = append(clients, c)
		}
		uses, seconds, minutes = append(uses, &l.Use), append(seconds, &l.Rates.Seconds), append(minutes, &l.Rates.Minutes)
	}
	merged.Clients = clients
	merged.Use = mergeUse(uses)
	merged.Rates = Rates{mergeSeries(seconds), mergeSeries(minutes)}
	return merged
}

// add adds what another instance knows of the same client.
func (c *Client) add(other *Client) {
	c.Minute.add(other.Minute)
	c.Hour.add(other.Hour)
	if other.Used > c.Used {
		c.Used, c.UsedAt = other.Used, other.UsedAt
	}
	if other.Seen.After(c.Seen) {
		c.Seen = other.Seen
	}
	if other.Denial.At.After(c.Denial.At) {
		c.Denial = other.Denial
	}
}

func (c *Counts) add(other Counts) {
	c.Requests = plus(c.Requests, other.Requests)
	c.Denied = plus(c.Denied, other.Denied)
	c.WouldDeny = plus(c.WouldDeny, other.WouldDeny)
}

// plus adds counts, which never get larger than one that is decoded: however many there are, of whatever
// instances say, no sum wraps round.
func plus(a, b int64) int64 { return min(a+b, maxCount) }

// maxLag is by how much a series may end before that of most instances, and still decide where the
// sum ends. An instance whose clock is wrong by more must not hide what the others have counted.
const maxLag = 2 * time.Minute

// mergeSeries adds series up. The sum ends with the series that ends first: a snapshot that is
// some seconds older would make the last seconds look lower than they were.
func mergeSeries(several []*Series) Series {
	step := several[0].Step
	several = slices.DeleteFunc(several, func(s *Series) bool { return len(s.Allowed) == 0 })
	if len(several) == 0 {
		return Series{Step: step}
	}
	slices.SortFunc(several, func(a, b *Series) int { return a.end().Compare(b.end()) })
	usual := several[len(several)/2].end()
	first := slices.IndexFunc(several, func(s *Series) bool { return !s.end().Before(usual.Add(-maxLag)) })
	end := several[first].end()
	sum := Series{Step: step, Start: end}
	for _, s := range several {
		if s.Start.Before(sum.Start) {
			sum.Start = s.Start
		}
	}
	n := int(min(max(end.Sub(sum.Start)/sum.Step, 0), seriesSteps))
	sum.Start = end.Add(-time.Duration(n) * sum.Step)
	sum.Allowed, sum.Denied, sum.WouldDeny = make([]int64, n), make([]int64, n), make([]int64, n)
	for _, s := range several {
		shift := int64(s.Start.Sub(sum.Start) / sum.Step)
		for i := range s.Allowed {
			if at := int64(i) + shift; at >= 0 && at < int64(n) {
				sum.Allowed[at] = plus(sum.Allowed[at], s.Allowed[i])
				sum.Denied[at] = plus(sum.Denied[at], s.Denied[i])
				sum.WouldDeny[at] = plus(sum.WouldDeny[at], s.WouldDeny[i])
			}
		}
	}
	return sum
}

func (s *Series) end() time.Time { return s.Start.Add(time.Duration(len(s.Allowed)) * s.Step) }

// mergeUse merges samples. Of those that were chosen by different secrets, which happens for a
// moment when instances start, only the largest group counts. A sample of level n has the clients whose hashes begin with n
// zeros: the sum has the highest level, and clients that this leaves out are left out of all, so that it is one sample of
// all clients. What the store tells of a client is the same in all instances, so the highest counts; what instances have
// added up themselves is added.
func mergeUse(several []*Use) Use {
	sizes := make(map[uint64]int)
	var merged Use
	for _, u := range several {
		sizes[u.group] += len(u.ids)
		if sizes[u.group] > sizes[merged.group] {
			merged.group = u.group
		}
	}
	peaks := make(map[uint64]int64)
	for _, u := range several {
		if u.group != merged.group {
			continue
		}
		if merged.Window == 0 { // not known of a limit that has decided in outages only
			merged.Window, merged.most = u.Window, u.most
		}
		merged.level = max(merged.level, u.level)
		for i, id := range u.ids {
			if merged.most {
				peaks[id] = max(peaks[id], u.sizes[i])
			} else {
				peaks[id] = plus(peaks[id], u.sizes[i])
			}
		}
	}
	for id := range peaks {
		if bits.LeadingZeros64(id<<idShift) >= int(merged.level) {
			merged.ids = append(merged.ids, id)
		}
	}
	slices.Sort(merged.ids)
	for _, id := range merged.ids {
		merged.sizes = append(merged.sizes, peaks[id])
	}
	merged.sumUp()
	return merged
}
