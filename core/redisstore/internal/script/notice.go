package script

import (
	"math/bits"
	"time"
)

// GivenBack is the end of the channel in which the script publishes keys to which units were
// given back. It follows the store's prefix.
const GivenBack = "given-back"

// Blocked is what a message in that channel begins with if the key was blocked while processes
// may hold units of it that they took ahead. Other messages are Redis keys without the prefix,
// which begin with a brace.
const Blocked = "blocked"

// maxPrefix is the longest prefix of which the script can make a channel.
const maxPrefix = 255

// CanPublish reports whether the script can publish keys of a prefix.
func CanPublish(prefix string) bool { return len(prefix) <= maxPrefix }

// NoticeFor returns the Notice of a caller that repeats denials for up to age.
func NoticeFor(age time.Duration) uint8 {
	if age <= 0 {
		return 0
	}
	return uint8(max(bits.Len64(uint64((age-1)/time.Millisecond)), 1))
}

// endAsk writes the end of what is asked.
func (g *Group) endAsk(prefix string) {
	length := byte(0)
	if CanPublish(prefix) {
		length = byte(len(prefix))
	}
	g.endShares()
	g.endPlain()
	g.data = append(g.data, g.Notice, length)
	g.asked = len(g.data)
}
