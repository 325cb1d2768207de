package openbao

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Times of logging in and renewing.
const (
	// backoffLeast and backoffMost bound how long a failed login keeps the next one
	// away. Calls in between get its error at once.
	backoffLeast = 100 * time.Millisecond
	backoffMost  = 5 * time.Second

	// renewLeast is the least time between two renewals, failed ones included.
	renewLeast = time.Second
)

// A session keeps a token good. One login runs at a time and all callers wait for it,
// each as long as its own context lasts.
type session struct {
	c      *Client
	ended  context.Context // done when the client is closed
	end    context.CancelFunc
	renews sync.WaitGroup
	wake   chan struct{} // a new token: the renewals start over

	mu      sync.Mutex
	closed  bool
	now     *grant
	login   *login
	failed  error
	backoff time.Duration
	until   time.Time // no login before
}

// A login is under way until done is closed.
type login struct {
	done chan struct{}
	err  error
}

func (s *session) start(c *Client) {
	s.c = c
	s.ended, s.end = context.WithCancel(context.Background())
	s.wake = make(chan struct{}, 1)
	s.renews.Go(s.renew)
}

// token returns the token of the moment, and logs in if there is none.
func (s *session) token(ctx context.Context) (string, error) {
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return "", ErrClosed
		case s.now != nil:
			token := s.now.value()
			s.mu.Unlock()
			return token, nil
		case s.login == nil && s.failed != nil && time.Now().Before(s.until):
			err := s.failed
			s.mu.Unlock()
			return "", err
		case s.login == nil:
			s.login = &login{done: make(chan struct{})}
			s.renews.Add(1)
			go s.run(s.login)
		}
		l := s.login
		s.mu.Unlock()
		select {
		case <-l.done:
			if l.err != nil {
				return "", l.err
			}
		case <-ctx.Done():
			return "", transportError(ctx, "log in", ctx.Err())
		}
	}
}

// run logs in for all who wait. It does not depend on the patience of any of them.
func (s *session) run(l *login) {
	defer s.renews.Done()
	ctx, cancel := s.c.deadline(s.ended)
	g, err := s.c.opts.Auth.login(ctx, s.c)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(l.done)
	s.login = nil
	if s.closed {
		l.err = ErrClosed
		if err == nil {
			s.now = g // for close, which waits for us, to revoke
		}
		return
	}
	if err != nil {
		if s.failed == nil {
			s.c.log.Warn("OpenBao login failed", "error", err)
			s.backoff = backoffLeast
		} else {
			s.backoff = min(2*s.backoff, backoffMost)
		}
		s.failed, s.until = err, time.Now().Add(s.backoff/2+rand.N(s.backoff/2+1))
		l.err = err
		return
	}
	if s.failed != nil {
		s.c.log.Info("OpenBao login works again")
	}
	s.now, s.failed = g, nil
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop forgets token, if it is still the one in use.
func (s *session) drop(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.value() == token {
		s.now = nil
	}
}

// gone finds out whether a refused token has ended, as against lacking a policy, and
// drops it then. So a call that the role may not make causes one look-up and no login.
func (s *session) gone(ctx context.Context, token string) bool {
	s.mu.Lock()
	replaced := s.now == nil || s.now.value() != token
	s.mu.Unlock()
	if replaced {
		return true
	}
	_, err := s.c.attempt(ctx, &request{op: "look up the token", method: "GET", path: "auth/token/lookup-self"}, token)
	if status(err) != http.StatusForbidden {
		return false
	}
	s.drop(token)
	return true
}

// renew keeps the token of the moment good until the client is closed.
func (s *session) renew() {
	var wait time.Duration // 0: until there is another token
	failing := false
	for {
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-s.ended.Done():
			return
		case <-s.wake:
			failing = false
			wait = s.firstRenewal()
			continue
		case <-timer:
		}
		g := s.current()
		if g == nil {
			wait = 0
			continue
		}
		next, err := s.renewOnce(g)
		switch {
		case s.ended.Err() != nil:
			return
		case err == nil && next > 0:
			if failing {
				s.c.log.Info("OpenBao token renewed again")
			}
			failing, wait = false, next
		case err == nil || errors.Is(err, ErrDenied):
			// It is at the end of its life, or gone: log in anew, before a caller
			// needs it, and keep the old one until there is a new one.
			wait = s.replace(g)
		default:
			if !failing {
				s.c.log.Warn("OpenBao token not renewed", "error", err)
			}
			failing = true
			left := time.Until(g.at.Add(g.lease))
			wait = spread(max(renewLeast, min(left/10, 30*time.Second)))
			if left <= 0 {
				s.drop(g.value())
				wait = 0
			}
		}
	}
}

func (s *session) current() *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// firstRenewal is the time until the token of the moment is to be renewed; 0 for never.
func (s *session) firstRenewal() time.Duration {
	g := s.current()
	if g == nil || g.lease <= 0 {
		return 0
	}
	return renewAfter(g.lease)
}

// renewAfter is two thirds of a lease, at random a tenth more or less, so that the
// replicas of a fleet that started together do not come together.
func renewAfter(lease time.Duration) time.Duration {
	return max(renewLeast, spread(lease*2/3))
}

func spread(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// renewOnce renews g and returns when to do it again; 0 if that will not help.
func (s *session) renewOnce(g *grant) (next time.Duration, err error) {
	if !g.renewable {
		return 0, nil
	}
	ctx, cancel := s.c.deadline(s.ended)
	defer cancel()
	a, err := s.c.attempt(ctx, &request{op: "renew the token", method: "POST", path: "auth/token/renew-self", body: struct{}{}}, g.value())
	if err != nil {
		return 0, err
	}
	lease, ok := leaseOf(a.body)
	if !ok {
		return 0, &Error{Op: "renew the token", Status: a.status, hint: "the answer is none", cause: ErrUnavailable}
	}
	fresh := *g
	fresh.lease, fresh.at = lease, time.Now()
	s.mu.Lock()
	if s.now == g {
		s.now = &fresh
	}
	s.mu.Unlock()
	// A lease that got shorter has met the token's maximum: renewing it ever more
	// often would end in a hot loop.
	if lease < g.lease-g.lease/10 {
		return 0, nil
	}
	return renewAfter(lease), nil
}

// replace logs in while the old token may still be good, and returns when to look
// again if that fails.
func (s *session) replace(old *grant) time.Duration {
	ctx, cancel := s.c.deadline(s.ended)
	defer cancel()
	g, err := s.c.opts.Auth.login(ctx, s.c)
	if err != nil {
		if s.ended.Err() == nil {
			s.c.log.Warn("OpenBao login failed", "error", err)
		}
		if left := time.Until(old.at.Add(old.lease)); left <= 0 && old.lease > 0 {
			s.drop(old.value())
			return 0
		}
		return spread(backoffMost)
	}
	s.mu.Lock()
	s.now, s.failed = g, nil
	s.mu.Unlock()
	if g.value() == old.value() {
		// A token of the caller's own that cannot be renewed: it is used until it ends.
		return 0
	}
	return s.firstRenewal()
}

// close ends the session and revokes its token.
func (s *session) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.renews.Wait()
	s.mu.Lock()
	g := s.now
	s.now = nil
	s.mu.Unlock()
	if g == nil || !g.own {
		return
	}
	ctx, cancel := s.c.deadline(context.Background())
	defer cancel()
	if _, err := s.c.attempt(ctx, &request{op: "revoke the token", method: "POST", path: "auth/token/revoke-self"}, g.value()); err != nil {
		s.c.log.Warn("OpenBao token not revoked; it ends by itself", "error", err)
	}
}
