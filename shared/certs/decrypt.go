package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/youmark/pkcs8"
	"golang.org/x/sys/unix"
	"software.sslmate.com/src/go-pkcs12"
)

// DecryptCommand is the argument with which programs call DecryptMain. A file says itself how
// much computation and memory its key needs; in a process of its own, both are limited.
const DecryptCommand = "decrypt-certificate"

// Limits of a decryption.
const (
	decryptTimeout = 10 * time.Second
	decryptCPU     = 2         // seconds
	decryptMemory  = 256 << 20 // bytes: derivations of OpenSSL need up to 32 MiB, the rest is for Go itself
)

const encryptedKey = "ENCRYPTED PRIVATE KEY"

// decryption is the answer of a decryption: a certificate, or a problem.
type decryption struct {
	Client  Client
	Problem *Problem
}

// decryptInProcess decrypts the key in another process of this program.
func (c ClientInput) decryptInProcess(ctx context.Context) (Client, []Problem) {
	ctx, cancel := context.WithTimeout(ctx, decryptTimeout)
	defer cancel()
	failure := []Problem{{"passphrase", "cannot be checked: the key needs too much computation"}}
	program, err := os.Executable()
	if err != nil {
		return Client{}, failure
	}
	input, err := json.Marshal(c)
	if err != nil {
		return Client{}, failure
	}
	process := exec.CommandContext(ctx, program, DecryptCommand)
	process.Stdin, process.Env, process.WaitDelay = bytes.NewReader(input), []string{"GOMAXPROCS=1"}, time.Second
	output, err := process.Output()
	var answer decryption
	if err != nil || json.Unmarshal(output, &answer) != nil {
		return Client{}, failure
	}
	if answer.Problem != nil {
		return Client{}, []Problem{*answer.Problem}
	}
	return answer.Client, nil
}

// DecryptMain decrypts a ClientInput, in JSON, and returns the exit status.
func DecryptMain(source io.Reader, out io.Writer) int {
	for resource, limit := range map[int]uint64{unix.RLIMIT_CPU: decryptCPU, unix.RLIMIT_DATA: decryptMemory, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return 1
		}
	}
	var input ClientInput
	if err := json.NewDecoder(source).Decode(&input); err != nil {
		return 1
	}
	if err := json.NewEncoder(out).Encode(input.decrypt()); err != nil {
		return 1
	}
	return 0
}

func (c ClientInput) decrypt() decryption {
	if c.PFX != "" {
		return c.decryptPFX()
	}
	block, _ := pem.Decode([]byte(c.Key))
	var key any
	var err error
	if block.Type == encryptedKey {
		key, err = pkcs8.ParsePKCS8PrivateKey(block.Bytes, []byte(c.Passphrase))
	} else if block.Bytes, err = x509.DecryptPEMBlock(block, []byte(c.Passphrase)); err == nil { //nolint:staticcheck // clients have such files
		delete(block.Headers, "DEK-Info")
		delete(block.Headers, "Proc-Type")
		return decryption{Client: Client{c.Origin, c.Cert, string(pem.EncodeToMemory(block))}}
	}
	if err != nil {
		return decryption{Problem: &Problem{"passphrase", "does not decrypt the key"}}
	}
	return c.withKey(c.Cert, key)
}

func (c ClientInput) decryptPFX() decryption {
	raw, err := base64.StdEncoding.DecodeString(c.PFX)
	if err != nil {
		return decryption{Problem: &Problem{"pfx", "must be base64"}}
	}
	key, leaf, chain, err := pkcs12.DecodeChain(raw, c.Passphrase)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) {
		return decryption{Problem: &Problem{"passphrase", "does not decrypt the file"}}
	}
	if err != nil {
		return decryption{Problem: &Problem{"pfx", "must be a PKCS #12 file with a certificate and its key: " + err.Error()}}
	}
	var text bytes.Buffer
	for _, certificate := range append([]*x509.Certificate{leaf}, chain...) {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}) // a buffer does not fail
	}
	return c.withKey(text.String(), key)
}

func (c ClientInput) withKey(cert string, key any) decryption {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return decryption{Problem: &Problem{"key", "has a type that is not supported"}}
	}
	return decryption{Client: Client{c.Origin, cert, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))}}
}
