// Package secret encrypts small secrets for storage (AES-256-GCM, with a key that the
// database never sees), and generates the tokens of links in mails.
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

// ErrDecrypt means that a ciphertext can't be decrypted: it was changed, moved to
// another place, or encrypted with a key that the Box does not have.
var ErrDecrypt = errors.New("the secret can't be decrypted")

// Box encrypts with one key and decrypts with any of its keys, so that keys can be
// rotated. A ciphertext is the key id (1 byte), the nonce (12), the encrypted text and
// its tag (16).
type Box struct {
	current byte
	keys    map[byte]cipher.AEAD
}

// Key is a key and the id that ciphertexts refer to.
type Key struct {
	ID    byte
	Bytes []byte // KeySize bytes
}

// New returns a Box that encrypts with current and decrypts with all of the keys.
func New(current Key, older ...Key) (*Box, error) {
	b := &Box{current: current.ID, keys: map[byte]cipher.AEAD{}}
	for _, k := range append([]Key{current}, older...) {
		if len(k.Bytes) != KeySize {
			return nil, fmt.Errorf("secret key %d has %d bytes, not %d", k.ID, len(k.Bytes), KeySize)
		}
		if b.keys[k.ID] != nil {
			return nil, fmt.Errorf("secret key %d occurs twice", k.ID)
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

// Parse reads keys in their configuration format: comma-separated "id:base64", the
// encryption key first. A single key may omit its id, which is then 1. Errors never
// contain a key.
func Parse(text string) (*Box, error) {
	var keys []Key
	for part := range strings.SplitSeq(text, ",") {
		id, encoded, named := strings.Cut(strings.TrimSpace(part), ":")
		if !named {
			id, encoded = "1", id
		}
		number, err := strconv.ParseUint(id, 10, 8)
		if err != nil {
			return nil, errors.New("the id of a secret key must be a number from 0 to 255")
		}
		bytes, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("secret key %d is not base64", number)
		}
		keys = append(keys, Key{ID: byte(number), Bytes: bytes})
	}
	return New(keys[0], keys[1:]...)
}

// Seal encrypts plain. Open requires the same aad, which identifies the place of the
// ciphertext.
func (b *Box) Seal(plain, aad []byte) ([]byte, error) {
	return b.keys[b.current].Seal([]byte{b.current}, nil, plain, aad), nil
}

// Open decrypts the result of Seal, or returns ErrDecrypt.
func (b *Box) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, ErrDecrypt
	}
	key, ok := b.keys[sealed[0]]
	if !ok {
		return nil, fmt.Errorf("%w: unknown key %d", ErrDecrypt, sealed[0])
	}
	plain, err := key.Open(nil, nil, sealed[1:], aad)
	if err != nil {
		return nil, ErrDecrypt
	}
	return plain, nil
}

// NewToken returns 256 random bits as base64url, for a link in a mail. Only its Hash
// is stored.
func NewToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never returns an error
	return base64.RawURLEncoding.EncodeToString(random)
}

// Hash returns the SHA-256 of a token. Tokens are looked up by it, so no secrets are
// compared.
func Hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
