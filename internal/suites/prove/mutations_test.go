package prove

// mutation is a mistake in the code, made on purpose.
type mutation struct {
	file, old, new string
	what           string // what is wrong then
	kinds          string // of histories that run, as go test's -run has them
	survives       string // why the proof can't notice, if it can't
}

const lua = "core/redisstore/internal/script/lua/"

var mutations = []mutation{
	{file: "core/store/tokenbucket.go", old: "whole*r.ints.Rate+fraction+cost*r.ints.Unit", new: "whole*r.ints.Rate+0*fraction+cost*r.ints.Unit", what: "a token bucket forgets the fraction of a tick", kinds: "Memory"},
	{file: "core/store/tokenbucket.go", old: "\tdebt -= elapsed * r.ints.Rate\n", new: "", what: "a refund also gives back what time has returned", kinds: "Memory"},
	{file: "core/store/tokenbucket.go", old: "return charged.At + max(ticks, 0)*tick", new: "return charged.At", what: "a refund does not regain what was owed before first", kinds: "Memory"},
	{file: "core/store/slidingwindow.go", old: "\t\tb.X, b.Y = 0, b.X\n", new: "\t\tb.X, b.Y = 0, 0\n", what: "a sliding window forgets the window before", kinds: "Memory"},
	{file: "core/store/slidingwindow.go", old: "\tcase ticks >= start-r.ints.Unit:\n\t\tb.Y -= min(b.Y, cost)\n", new: "\tdefault:\n\t\tb.X -= min(b.X, cost)\n", what: "what the last window was charged is given back to this one", kinds: "Memory"},
	{file: "core/store/slidinglog.go", old: "b.Log[0].At+f.Unit <= now", new: "b.Log[0].At+f.Unit < now", what: "an entry of a log counts for a microsecond too long", kinds: "Memory"},
	{file: "core/store/concurrency.go", old: "\tr.freeSlots(b, cost, at)\n\tb.ChargeAnyway(r, now, cost)\n", new: "\tb.ChargeAnyway(r, now, cost)\n", what: "renewed slots are taken twice", kinds: "Memory"},
	{file: "core/store/penalty.go", old: "p.Level = min(p.Level+1, highestLevel)", new: "_ = highestLevel", what: "blocks do not become longer", kinds: "Memory"},
	{file: "core/store/state.go", old: "\tif s.reading.Blocked > 0 {\n\t\treturn\n\t}\n", new: "", what: "denials during a block count towards the next", kinds: "Memory"},
	{file: "core/store/state.go", old: "s.Commit(c.Rule, c.Cost, now, granted && s.fits)", new: "s.Commit(c.Rule, c.Cost, now, s.fits)", what: "a denied request charges the limits that had room", kinds: "Memory"},
	{file: "core/store/state.go", old: "granted = granted && (s.fits || c.Shadow)", new: "granted = granted && s.fits", what: "a limit in shadow mode denies", kinds: "Memory"},
	{file: "core/memstore/memory.go", old: "\tif now < s.latest {\n\t\tnow = m.now()\n\t}\n", new: "", what: "a request that waited for a lock decides by the time before it", kinds: "Memory"},
	{file: "core/memstore/memory.go", old: "\tif fits := s.Judge(rule, cost, now, offset); take", new: "\tat.shard.mu.Unlock()\n\tfor range 1000 {\n\t\tm.now()\n\t}\n\tat.shard.mu.Lock()\n\tat.index, at.found = at.shard.find(at.place)\n\tif fits := s.Judge(rule, cost, now, offset); take", what: "the lock is released between reading and writing", kinds: "Memory"},

	{file: lua + "tokenbucket.lua", old: "local debt = whole * per + x\n", new: "local debt = whole * per\n", what: "the script forgets the fraction of a tick", kinds: "Redis"},
	{file: lua + "plain.lua", old: "fit = fit and ends <= since + room * microseconds", new: "fit = ends <= since + room * microseconds", what: "of several token buckets of a key the last denies alone", kinds: "Redis"},
	{file: lua + "plain.lua", old: "local more, ends = times * plan[p + 5]", new: "local more, ends = plan[p + 5]", what: "several token buckets of a key are charged one request, however many ask the same", kinds: "Redis", survives: "equal requests of several limits hardly ever wait together in these histories; the comparison of both ways in core/redisstore, TestPlainTakesAreDecidedLikeOthers, notices"},
	{file: lua + "slidingwindow.lua", old: "math.ceil(weighted / per)", new: "math.floor(weighted / per)", what: "the script rounds the window before down", kinds: "Redis"},
	{file: lua + "slidinglog.lua", old: "if when + window > now then break end", new: "if when + window >= now then break end", what: "the script keeps an entry of a log for a microsecond too long", kinds: "Redis", survives: "on a real server nobody asks in just this microsecond; the random sequences of the store suite, whose clock stands still, notice"},
	{file: lua + "fixedwindow.lua", old: "current = operation == REFUND and charged >= over - per", new: "current = operation == REFUND", what: "a window that has just begun is given back what the last one was charged", kinds: "Redis"},
	{file: lua + "grant.lua", old: "if fits < grant and not shadow then grant = fits end", new: "if fits < grant and not shadow and key == 1 then grant = fits end", what: "only the limits of the first key deny", kinds: "Redis"},
	{file: lua + "grant.lua", old: "if operation == RESET and state then ends = 0 end", new: "if operation == RESET and state and algorithm ~= PENALTY then ends = 0 end", what: "a reset leaves blocks", kinds: "Redis"},
	{file: lua + "penalty.lua", old: "if y + longest <= now then level = 0 end", new: "if y <= now then level = 0 end", what: "the script forgets earlier blocks too early", kinds: "Redis"},
	{file: lua + "write.lua", old: "local ttl = (last - now) / 1000 + 3", new: "local ttl = math.min((last - now) / 1000 + 3, 5)", what: "Redis drops keys after 5 ms", kinds: "Redis"},
	{file: lua + "read.lua", old: "    if expires > farthest then\n", new: "    if false then\n", what: "nothing is brought back after the clock was set back", kinds: "Clock"},
	{file: lua + "penalty.lua", old: "x, y, ends = now, now + y - x, 0", new: "ends = nil", what: "a block lasts longer after the clock was set back", kinds: "Clock"},
	{file: "core/redisstore/answer.go", old: "charges := min(j.before, granted, fits)", new: "charges := min(0, granted, fits)", what: "equal requests of one round trip are told the same", kinds: "Redis"},
	{file: "core/redisstore/roundtrip.go", old: "\tb.send(ctx, c, b.calls, byDigest)\n\tvar again []call\n", new: "\tb.send(ctx, c, b.calls, byDigest)\n\tif err := b.calls[0].cmd.Err(); err != nil && ctx.Err() == nil && strings.Contains(err.Error(), \"EOF\") {\n\t\tb.send(ctx, c, b.calls, byDigest)\n\t}\n\tvar again []call\n", what: "a call whose connection was cut is sent again", kinds: "Faults"},
	{file: "core/redisstore/undone.go", old: "\treturn errors.As(err, &network) && network.Op == \"dial\"\n", new: "\treturn errors.As(err, &network) || err != nil\n", what: "what may have happened is said not to have", kinds: "Faults"},
	{file: lua + "notice.lua", old: "local gives = last and (converted or operation == REFUND or operation == RESET)", new: "local gives = last and (converted or operation == RESET)", what: "refunds are not published", kinds: "Redis"},
	{file: lua + "notice.lua", old: "local gives = last and (converted or operation == REFUND or operation == RESET)", new: "local gives = last and (converted or operation == REFUND)", what: "resets and unblocks are not published", kinds: "Redis"},
	{file: lua + "penalty.lua", old: "converted = converted or y > now + lasts", new: "converted = converted or false", what: "a block that is shortened is not published", kinds: "Redis"},
	{file: "core/redisstore/listener.go", old: "s.denials.forgetKey(script.TagOf(\"\", message))", new: "_ = script.TagOf(\"\", message)", what: "the listener ignores messages", kinds: "Redis"},
	{file: "core/redisstore/listener.go", old: "\t\ts.denials.forgetAll()\n", new: "", what: "a process that subscribes again keeps its denials", kinds: "Lost"},
	{file: "core/redisstore/denialcache.go", old: "epoch: l.epoch}\n\tif l.expires", new: "epoch: d.epoch(checks)}\n\tif l.expires", what: "an answer that is older than a message is repeated", kinds: "Redis"},
	{file: "core/redisstore/denialcache.go", old: "expires: l.sent + min(certain, longest)", new: "expires: l.sent + longest", what: "a denial is repeated after its Retry-After", kinds: "Redis"},
	{file: "core/redisstore/denialcache.go", old: "longest := s.denials.age\n", new: "longest := 2 * s.denials.age\n", what: "a denial is repeated for two ages", kinds: "Lost"},
	{file: "core/redisstore/denialcache.go", old: "\t\t\treturn // denials count towards a block\n", new: "\t\t\tblocked = longest\n", what: "denials that count towards a block are repeated", kinds: "Redis"},
	{file: "core/redisstore/denialcache.go", old: "checks[i].Rule.Algorithm != store.Concurrency || checks[i].Rule.Penalized() {", new: "false {", what: "a process repeats denials that it has ended itself", kinds: "Lost"},
	{file: "core/redisstore/multislot.go", old: "\t\trefunds = append(refunds, g.job)\n\t\tif !inTime {\n\t\t\tg.job = nil // the goroutine's below\n\t\t}\n", new: "\t\tg.job = nil\n", what: "what another slot denied is not given back", kinds: "Slots"},

	{file: "core/pgstore/exchange.go", old: "\treturn heldByMany\n", new: "\treturn untouched\n", what: "rows that a call reads beside those that it writes may change meanwhile", kinds: "PostgreSQL"},
	{file: "core/pgstore/sql/swap.sql", old: "v IS DISTINCT FROM olds[i] THEN", new: "v IS NULL THEN", what: "a row that another process has changed is overwritten", kinds: "PostgreSQL"},
}
