package vault

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

// The errors never contain the seed.
var (
	errSeed    = errors.New("must be a seed in base32 with at least 16 characters, or an otpauth://totp/ URI")
	errOptions = errors.New("must have SHA1, SHA256 or SHA512 as algorithm, 6 or 8 digits, and a period from 10 to 300 seconds")
)

// minSeed is the minimum length of a seed in base32, 80 bits.
const minSeed = 16

// seed generates the codes of a TOTP seed.
type seed struct {
	text    string // base32
	options totp.ValidateOpts
}

// parseSeed parses a seed in base32, or an otpauth URI (Key URI Format of Google
// Authenticator).
func parseSeed(text string) (seed, error) {
	s := seed{text: text, options: totp.ValidateOpts{Period: 30, Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}}
	if strings.Contains(text, "://") {
		key, err := otp.NewKeyFromURL(text)
		if err != nil || !strings.HasPrefix(strings.ToLower(text), "otpauth://totp/") {
			return seed{}, errSeed
		}
		if !checkOptions(text) {
			return seed{}, errOptions
		}
		s.text = key.Secret()
		s.options = totp.ValidateOpts{Period: uint(key.Period()), Digits: key.Digits(), Algorithm: key.Algorithm()}
	}
	s.text = strings.ToUpper(strings.NewReplacer(" ", "", "-", "", "=", "").Replace(s.text))
	if _, _, err := s.code(time.Unix(0, 0)); err != nil || len(s.text) < minSeed {
		return seed{}, errSeed
	}
	return s, nil
}

// checkOptions reports whether the options of an otpauth URI are valid. The library
// would replace others by the default.
func checkOptions(text string) bool {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return false
	}
	q := u.Query()
	period, err := strconv.Atoi(q.Get("period"))
	return (q.Get("period") == "" || err == nil && period >= 10 && period <= 300) &&
		slices.Contains([]string{"", "6", "8"}, q.Get("digits")) && q.Get("encoder") == "" &&
		slices.Contains([]string{"", "SHA1", "SHA256", "SHA512"}, strings.ToUpper(q.Get("algorithm")))
}

// code returns the code of the period that includes now, and the end of the period.
func (s seed) code(now time.Time) (code string, until time.Time, err error) {
	code, err = totp.GenerateCodeCustom(s.text, now, s.options)
	period := int64(s.options.Period)
	return code, time.Unix((now.Unix()/period+1)*period, 0).UTC(), err
}

// totpCode is code of the seed that the text describes.
func totpCode(text string, now time.Time) (code string, until time.Time, err error) {
	s, err := parseSeed(text)
	if err != nil {
		return "", time.Time{}, err
	}
	return s.code(now)
}
