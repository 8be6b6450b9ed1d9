package script

import "github.com/weblimit/weblimit/core/store"

// isAlternative is added to the algorithm of a check that has alternatives in its group; see lua/choice.lua.
const isAlternative = 1 << 4

// alternative says which choice of the group a check belongs to, from 1, where it stands there, and which one is likely
// charged. The choice is 0 for a check without alternatives.
type alternative struct{ choice, place, guess uint8 }

// AddChoice adds a choice to a take: checks of the request from number index on, of which the first one that fits is
// charged. guess is the place among them of the one that likely is; the script is faster if that is right. The group must
// be of one request. There are fewer than store.MaxChecks of them, so a byte holds their numbers.
func (g *Group) AddChoice(index int, checks []store.Check, guess uint8) {
	g.choices++
	for i := range checks {
		g.add(index+i, &checks[i], 0, alternative{g.choices, uint8(i), guess})
	}
}
