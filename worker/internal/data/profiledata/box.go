package profiledata

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"github.com/restic/chunker"

	"github.com/browser-svc/svc/shared/profilekey"
)

// maxObject is the maximum size of an unpacked object.
const maxObject = 64 << 20

// keySize is the size of a key of profile data, in bytes.
const keySize = 32

// box encrypts and names the objects of an organization. Each purpose has its own key,
// derived from the organization's.
type box struct {
	aead       cipher.AEAD
	idKey      []byte
	directory  string      // of the organization
	polynomial chunker.Pol // decides where chunks begin
	encoder    *zstd.Encoder
	decoder    *zstd.Decoder
}

func newBox(key []byte) (*box, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("the key of the profile data has %d bytes, not %d", len(key), keySize)
	}
	derived := map[string][]byte{"encryption": nil, "chunk ids": nil, "boundaries": nil}
	for purpose := range derived {
		var err error
		if derived[purpose], err = profilekey.Derive(key, purpose); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(derived["encryption"])
	if err != nil {
		return nil, err
	}
	b := &box{idKey: derived["chunk ids"]}
	if b.directory, err = profilekey.Directory(key); err != nil {
		return nil, err
	}
	if b.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	if b.polynomial, err = derivePolynomial(derived["boundaries"]); err != nil {
		return nil, err
	}
	if b.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true)); err != nil {
		return nil, err
	}
	b.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxObject))
	return b, err
}

// derivePolynomial derives the polynomial from an endless stream of the key, so that the
// sizes of chunks do not identify known files.
func derivePolynomial(key []byte) (chunker.Pol, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return 0, err
	}
	stream := cipher.StreamReader{S: cipher.NewCTR(block, make([]byte, aes.BlockSize)), R: zeros{}}
	polynomial, err := chunker.DerivePolynomial(stream)
	if err != nil {
		return 0, fmt.Errorf("derive the boundaries of chunks: %w", err)
	}
	return polynomial, nil
}

type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// chunkID returns the keyed hash of a chunk's content.
func (b *box) chunkID(content []byte) string {
	mac := hmac.New(sha256.New, b.idKey)
	mac.Write(content)
	return hex.EncodeToString(mac.Sum(nil))
}

// seal compresses and encrypts an object. open requires the same name.
func (b *box) seal(name string, content []byte) []byte {
	return b.aead.Seal(nil, nil, b.encoder.EncodeAll(content, make([]byte, 0, len(content))), []byte(name))
}

// open decrypts an object, and unpacks it into a buffer that is large enough. errDamaged means that it was changed or moved, or has another
// key.
func (b *box) open(name string, sealed, buffer []byte) ([]byte, error) {
	packed, err := b.aead.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, damaged("object %s cannot be decrypted: it was changed, or has another key", name)
	}
	content, err := b.decoder.DecodeAll(packed, buffer[:0])
	if err != nil {
		return nil, damaged("object %s: %w", name, err)
	}
	return content, nil
}
