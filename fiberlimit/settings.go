package fiberlimit

import (
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
)

// settings are those of an application that say how its requests are to be read.
type settings struct {
	app        *fiber.App
	exactNames bool   // names of headers keep the spelling in which they were sent
	streams    bool   // bodies are read when a handler reads them
	proxy      string // the header that c.IP reads, or ""
}

// settingsCache remembers the settings of the application that was asked for last,
// since a copy of its configuration is large. There is one, as a rule.
type settingsCache struct{ last atomic.Pointer[settings] }

func (s *settingsCache) of(c *fiber.Ctx) *settings {
	app := c.App()
	if last := s.last.Load(); last != nil && last.app == app {
		return last
	}
	config := app.Config()
	found := &settings{app, config.DisableHeaderNormalizing, config.StreamRequestBody, config.ProxyHeader}
	s.last.Store(found)
	return found
}
