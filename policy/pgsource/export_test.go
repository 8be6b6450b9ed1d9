package pgsource

import "context"

// Look is what Watch asks once a second.
func (s *Source) Look(ctx context.Context) error {
	_, err := s.look(ctx)
	return err
}
