package auth

import (
	"context"
	"fmt"
	"runtime"

	"github.com/alexedwards/argon2id"
)

// Cost is the cost of hashing one password (Argon2id).
type Cost struct {
	MemoryKiB  uint32
	Iterations uint32
}

// DefaultCost takes about 30 ms of one CPU and 19 MiB, as OWASP recommends for
// password storage.
var DefaultCost = Cost{MemoryKiB: 19 * 1024, Iterations: 2}

const (
	saltBytes = 16
	keyBytes  = 32
)

// passwords hashes and checks passwords, at most one per CPU at a time, which
// bounds CPU and memory use.
type passwords struct {
	params argon2id.Params
	slots  chan struct{}
	// decoy is compared when there is no account, so that an unknown address
	// takes as long as a wrong password.
	decoy string
}

func newPasswords(cost Cost) (*passwords, error) {
	p := &passwords{
		params: argon2id.Params{
			Memory: cost.MemoryKiB, Iterations: cost.Iterations, Parallelism: 1,
			SaltLength: saltBytes, KeyLength: keyBytes,
		},
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	var err error
	p.decoy, err = argon2id.CreateHash("", &p.params)
	if err != nil {
		return nil, fmt.Errorf("hash the decoy password: %w", err)
	}
	return p, nil
}

// hash returns the hash to store for a password.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	if err := p.acquire(ctx); err != nil {
		return "", err
	}
	defer p.release()
	hash, err := argon2id.CreateHash(password, &p.params)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return hash, nil
}

// matches compares a password with a stored hash. An empty hash (no account)
// takes as long and never matches.
func (p *passwords) matches(ctx context.Context, password, hash string) (bool, error) {
	if err := p.acquire(ctx); err != nil {
		return false, err
	}
	defer p.release()
	hasAccount := hash != ""
	if !hasAccount {
		hash = p.decoy
	}
	match, err := argon2id.ComparePasswordAndHash(password, hash)
	if err != nil {
		return false, fmt.Errorf("check a password: %w", err)
	}
	return match && hasAccount, nil
}

func (p *passwords) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait to check a password: %w", ctx.Err())
	}
}

func (p *passwords) release() { <-p.slots }
