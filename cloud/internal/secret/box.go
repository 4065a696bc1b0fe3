// Package secret seals small secrets for storage (AES-256-GCM under a key that
// the database never sees), and makes the tokens of links in mails.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// ErrDecrypt says that a ciphertext can't be opened: it was changed, moved to
// another place, or sealed with a key that the Box doesn't have.
var ErrDecrypt = errors.New("the secret can't be opened")

// Box seals with one key and opens with any of its keys, so that keys can be
// replaced while old ciphertexts are still about. A ciphertext is the key's id
// (one byte), the nonce (12), the encrypted text and its tag (16).
type Box struct {
	current byte
	keys    map[byte]cipher.AEAD
}

// Key is one key and the id by which ciphertexts name it.
type Key struct {
	ID    byte
	Bytes []byte // KeySize of them
}

// New returns a Box that seals with current and opens with all of the keys.
func New(current Key, older ...Key) (*Box, error) {
	b := &Box{current: current.ID, keys: map[byte]cipher.AEAD{}}
	for _, k := range append([]Key{current}, older...) {
		if len(k.Bytes) != KeySize {
			return nil, fmt.Errorf("secret key %d has %d bytes, not %d", k.ID, len(k.Bytes), KeySize)
		}
		if b.keys[k.ID] != nil {
			return nil, fmt.Errorf("secret key %d is given twice", k.ID)
		}
		block, err := aes.NewCipher(k.Bytes)
		if err != nil {
			return nil, fmt.Errorf("secret key %d: %w", k.ID, err)
		}
		if b.keys[k.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("secret key %d: %w", k.ID, err)
		}
	}
	return b, nil
}

// Parse reads keys as configuration writes them: "id:base64" separated by
// commas, the one to seal with first. A single key may leave out its id, which
// is then 1. An error never repeats a key.
func Parse(text string) (*Box, error) {
	var keys []Key
	for part := range strings.SplitSeq(text, ",") {
		id, encoded, named := strings.Cut(strings.TrimSpace(part), ":")
		if !named {
			id, encoded = "1", id
		}
		number, err := strconv.ParseUint(id, 10, 8)
		if err != nil {
			return nil, errors.New("the id of a secret key is a number from 0 to 255")
		}
		bytes, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("secret key %d is not base64", number)
		}
		keys = append(keys, Key{ID: byte(number), Bytes: bytes})
	}
	return New(keys[0], keys[1:]...)
}

// Seal encrypts plain. Only Open with the same aad, which says where the
// ciphertext belongs, brings it back.
func (b *Box) Seal(plain, aad []byte) ([]byte, error) {
	return b.keys[b.current].Seal([]byte{b.current}, nil, plain, aad), nil
}

// Open decrypts what Seal returned; ErrDecrypt when it can't.
func (b *Box) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, ErrDecrypt
	}
	key, ok := b.keys[sealed[0]]
	if !ok {
		return nil, fmt.Errorf("%w: there is no key %d", ErrDecrypt, sealed[0])
	}
	plain, err := key.Open(nil, nil, sealed[1:], aad)
	if err != nil {
		return nil, ErrDecrypt
	}
	return plain, nil
}

// NewToken returns 256 random bits as base64url, for a link in a mail. What is
// stored of it is its Hash.
func NewToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails: the program ends first
	return base64.RawURLEncoding.EncodeToString(random)
}

// Hash is the SHA-256 of a token. A token is found by it, so no secrets are
// compared.
func Hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
