package redistest

import "testing"

func TestUserMayWhatItsRulesSay(t *testing.T) {
	t.Parallel()
	s := Start(t)
	ctx := t.Context()
	s.User(t, "narrow", "~app:*", "+set", "+acl|whoami")
	c := s.ClientAs(t, "narrow")
	if got, err := c.Do(ctx, "acl", "whoami").Text(); got != "narrow" || err != nil {
		t.Errorf("ACL WHOAMI = %q, %v", got, err)
	}
	if err := c.Set(ctx, "app:k", "v", 0).Err(); err != nil {
		t.Errorf("SET of a key of its own: %v", err)
	}
	wantRefusal(t, "SET of another key", c.Set(ctx, "k", "v", 0).Err(), "NOPERM")
	wantRefusal(t, "GET", c.Get(ctx, "app:k").Err(), "NOPERM")

	s.User(t, "narrow", "~app:*", "+get")
	again := s.ClientAs(t, "narrow")
	if err := again.Get(ctx, "app:k").Err(); err != nil {
		t.Errorf("GET with other rules: %v", err)
	}
	wantRefusal(t, "SET with other rules", again.Set(ctx, "app:k", "v", 0).Err(), "NOPERM")
	wantRefusal(t, "a user nobody made", s.ClientAs(t, "nobody").Get(ctx, "k").Err(), "WRONGPASS")
}
