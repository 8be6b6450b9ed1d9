package pgsource

import (
	"context"
	"time"
)

// Look is what Watch asks once a second.
func (s *Source) Look(ctx context.Context) error {
	_, err := s.look(ctx)
	return err
}

// AskingAfter has the listener ask whether its connection lives after another time of silence.
func (s *Source) AskingAfter(silence time.Duration) *Source {
	s.silence = silence
	return s
}

// Within has PostgreSQL answer within another time.
func (s *Source) Within(timeout time.Duration) *Source {
	s.timeout = timeout
	return s
}
