package core

// Hidden keeps the limit out of what clients are told: its name and numbers are in no header, no warning and no
// problem body, and package usage does not report it. It is enforced like any other. A denial by it has its status,
// Retry-After and a body that says only that, and when to try again:
//
//	core.PerDay(50_000).By(keyfuncs.User("user")).Named("abuse").Hidden()
//
// It is for limits beside those that clients are to plan by, such as one against abuse, or one of what all
// clients use together. Clients still learn that there is a limit, by being denied, and can count how much they were
// allowed before. The application, its observers and the page see the limit as always; [LimitResult] says that it is hidden.
//
// On a denial by a hidden limit, headers that have room for one limit are left out, and those that list limits
// show the others. [Decision.Quota] leaves it out, too: it is for texts that clients read.
func (l Limit) Hidden() Limit {
	l.hidden = true
	return l
}

// told reports whether clients are told of the limit.
func (r *LimitResult) told() bool { return r.Enforced() && !r.Hidden }

// bindingTold returns the result that matters most among those that clients are told of, or nil. Of a denial it
// is the limit that denies, or none.
func (d *Decision) bindingTold() *LimitResult {
	if d.binding < 0 {
		return nil
	}
	results := d.Results()
	if r := &results[d.binding]; r.told() {
		return r
	}
	if !d.Allowed {
		return nil
	}
	var near *LimitResult
	for i := range results {
		if r := &results[i]; r.told() && (near == nil || r.Remaining < near.Remaining) {
			near = r
		}
	}
	return near
}
