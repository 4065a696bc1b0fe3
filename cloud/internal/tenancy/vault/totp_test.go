package vault

import (
	"encoding/base32"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTotpCode_MatchesRFC6238 checks the vectors of appendix B.
func TestTotpCode_MatchesRFC6238(t *testing.T) {
	digits := strings.Repeat("1234567890", 7)
	keys := map[string]string{"SHA1": digits[:20], "SHA256": digits[:32], "SHA512": digits[:64]}
	for second, codes := range map[int64]map[string]string{
		59:          {"SHA1": "94287082", "SHA256": "46119246", "SHA512": "90693936"},
		1111111109:  {"SHA1": "07081804", "SHA256": "68084774", "SHA512": "25091201"},
		1111111111:  {"SHA1": "14050471", "SHA256": "67062674", "SHA512": "99943326"},
		1234567890:  {"SHA1": "89005924", "SHA256": "91819424", "SHA512": "93441116"},
		2000000000:  {"SHA1": "69279037", "SHA256": "90698825", "SHA512": "38618901"},
		20000000000: {"SHA1": "65353130", "SHA256": "77737706", "SHA512": "47863826"},
	} {
		for algorithm, want := range codes {
			seed := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString([]byte(keys[algorithm]))
			uri := fmt.Sprintf("otpauth://totp/Shop:robot?secret=%s&algorithm=%s&digits=8&period=30&issuer=Shop", seed, algorithm)
			code, until, err := totpCode(uri, time.Unix(second, 0))
			if err != nil || code != want || until.Unix() != second/30*30+30 {
				t.Errorf("%s at %d: %s until %v: %v, want %s", algorithm, second, code, until, err, want)
			}
			if code, _, err := totpCode(seed, time.Unix(second, 0)); algorithm == "SHA1" && (err != nil || code != want[2:]) {
				t.Errorf("the seed alone at %d: %s: %v, want %s", second, code, err, want[2:])
			}
		}
	}
}

func TestParseSeed(t *testing.T) {
	for text, good := range map[string]bool{
		testSeed: true, strings.ToLower(testSeed): true, "jbsw y3dp ehpk 3pxp": true, "JBSW-Y3DP-EHPK-3PXP": true,
		"JBSWY3DPEHPK3PX": false, "JBSWY3DPEHPK3PX1": false, "                    ": false, "================": false,
		"otpauth://totp/x?secret=" + testSeed: true, "otpauth://totp/x?secret=" + testSeed + "&algorithm=sha256&digits=8&period=60": true,
		"otpauth://hotp/x?secret=" + testSeed + "&counter=1": false, "otpauth://totp/x": false, "https://totp/x?secret=" + testSeed: false,
		"otpauth://totp/x?secret=" + testSeed + "&digits=7": false, "otpauth://totp/x?secret=" + testSeed + "&digits=x": false,
		"otpauth://totp/x?secret=" + testSeed + "&period=0": false, "otpauth://totp/x?secret=" + testSeed + "&period=301": false,
		"otpauth://totp/x?secret=" + testSeed + "&period=30s": false, "otpauth://totp/x?secret=" + testSeed + "&algorithm=MD5": false,
		"otpauth://totp/x?secret=" + testSeed + "&encoder=steam": false, "otpauth://totp/%zz?secret=" + testSeed: false,
	} {
		_, err := parseSeed(text)
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "JBSW") || err != nil && strings.Contains(err.Error(), testSeed) {
			t.Errorf("the error contains the seed: %v", err)
		}
	}
}
