package mutants

// shares are mistakes in limits that clients divide. Histories take the standing that a client was told for granted, so no
// history is made for them.
var shares = []Mutant{
	{File: "core/store/counting/share.go", Old: "d.Level += integer.FloorDiv(d.Over-whole/slack, d.Capped)", New: "d.Level += 0 * integer.FloorDiv(d.Over-whole/slack, d.Capped)", What: "the level of shares never rises", Tests: "core/memstore core/redisstore internal/test/fairsim"},
	{File: "core/store/counting/share.go", Old: "func (d *Division) fall(whole int64) { d.Level, d.Over = d.base(whole), 0 }", New: "func (d *Division) fall(whole int64) { d.Over = 0 }", What: "the level of shares does not fall when others need the reserve", Tests: "core/memstore core/redisstore internal/test/fairsim"},
	{File: "core/store/counting/sharing.go", Old: "return r.Guaranteed + (r.Whole-r.Guaranteed)/2\n\t}\n\treturn r.Guaranteed", New: "return r.Guaranteed\n\t}\n\treturn r.Guaranteed", What: "who is over its share leaves nothing to others", Tests: "core/memstore core core/redisstore"},
	{File: "core/store/counting/sharing.go", Old: "\th.Client.charge(h.share, h.parts)\n\th.ClientChanged = true\n\tswitch {", New: "\th.ClientChanged = true\n\tswitch {", What: "what a client gets is not charged to its share", Tests: "core/memstore core core/redisstore"},
	{File: "core/store/counting/sharing.go", Old: "\tcase store.OfMinimum:\n\t\treturn 0\n", New: "\tcase store.OfMinimum:\n\t\treturn r.Guaranteed\n", What: "a minimum is denied while what is guaranteed is there", Tests: "core/memstore core core/redisstore"},
	{File: "core/store/counting/state.go", Old: "\t\tnobodyAsked(states)\n", New: "", What: "who peeks at a share counts as one who asks", Tests: "core/memstore core/redisstore"},
	{File: "core/memstore/sharing.go", Old: "if h.UserChanged {", New: "if false {", What: "the users of a client are not told apart for longer than a call", Tests: "core/memstore core"},
	{File: "core/redisstore/internal/script/share.go", Old: "if kind != divisionKey {", New: "if kind == userKey {", What: "all clients of a limit have one share", Tests: "core/redisstore internal/suites/fair"},
	{File: lua + "share.lua", Old: "if holds and level > base and debt + t[17] > t[3] then", New: "if false then", What: "the script's short way never lowers the level of shares", Tests: "core/redisstore"},
	{File: lua + "share.lua", Old: "if holds and d[3] > base and (spared or debt + cost + terms[13] > capacity) then", New: "if false then", What: "the script never lowers the level of shares", Tests: "core/redisstore"},
	{File: lua + "share.lua", Old: "if not holds and flags % 2 == 0 then", New: "if false then", What: "the script's short way does not count who wants more than its share", Tests: "core/redisstore"},
	{File: lua + "share.lua", Old: "grant > 0 and client.charged and client.standing > 0", New: "client.charged and client.standing > 0", What: "a request that another limit denies is charged to the client's share", Tests: "core/redisstore"},
	{File: "internal/line/turns.go", Old: "\t\tf.next = later(f.next, t.now)\n\t\tt.seq++", New: "\t\tf.next = t.now\n\t\tt.seq++", What: "a client that leaves the line and comes again gets in front", Tests: "internal/line core"},
	{File: "internal/line/turns.go", Old: "* unit / uint64(f.weight)\n\tc :=", New: "* unit\n\tc :=", What: "all clients of a line have one weight", Tests: "internal/line core"},
	{File: "internal/line/line.go", Old: "if l.since >= lowerEvery-1 {", New: "if false {", What: "a lower class waits for ever behind a higher one", Tests: "internal/line core"},
}
