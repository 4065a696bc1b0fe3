package profiledata_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/worker/internal/data/profiledata"
)

// large returns a tree whose snapshot has many blocks.
func large(seed int64) tree {
	data, random := sampleTree(int(seed)), rand.New(rand.NewSource(seed))
	for i := range 4 {
		text := make([]byte, 80_000)
		random.Read(text[:len(text)/2])
		data[fmt.Sprintf("Default/f%d", i)] = file(string(text))
	}
	return data
}

// TestRestore_DamagedSnapshotNeverReplacesGoodOne truncates and flips every part of
// the current version. It checks that the previous version is restored, or the saved
// content if the damage does not change it.
func TestRestore_DamagedSnapshotNeverReplacesGoodOne(t *testing.T) {
	good, current := large(1), large(2)
	r := newFixture(t, func(o *profiledata.Options) { o.Versions = 2 })
	r.save(t, good)
	first, err := os.ReadFile(r.path(1))
	if err != nil {
		t.Fatal(err)
	}
	r.save(t, current)
	whole, err := os.ReadFile(r.path(2))
	if err != nil {
		t.Fatal(err)
	}
	const trailer = 120
	packed := len(whole) - trailer
	damages := map[string][]byte{
		"empty": {}, "zeros": make([]byte, len(whole)), "longer": append(bytes.Clone(whole), 0), "twice": bytes.Repeat(whole, 2),
		"the body of another snapshot": append(bytes.Clone(first[:len(first)-trailer]), whole[packed:]...),
		"a hole":                       append(append(bytes.Clone(whole[:packed/2]), make([]byte, 4096)...), whole[packed/2+4096:]...),
	}
	for _, at := range []int{1, 3, 4, 5, 17, 512, packed / 3, packed / 2, packed - 5, packed - 1, packed, packed + 1, packed + 8, len(whole) - 40, len(whole) - 1} {
		damages[fmt.Sprintf("cut at %d", at)] = whole[:at]
		damages[fmt.Sprintf("without its first %d", at)] = whole[at:]
	}
	flip := func(at int) {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		damages[fmt.Sprintf("flipped at %d", at)] = flipped
	}
	for at := range 24 {
		flip(at)
	}
	for at := 24; at < packed-16; at += packed / 40 {
		flip(at)
	}
	for at := packed - 16; at < len(whole); at += 2 {
		flip(at)
	}
	for what, content := range damages {
		quarantined(t, r, map[int][]byte{1: first, 2: content})
		got := r.restored(t)
		if left := r.numbers(t); len(left) == 2 { // not detected, so the restored content must equal the saved content
			assertTree(t, got, current)
		} else {
			assertTree(t, got, good)
			if kept, err := os.ReadFile(r.path(2) + ".bad"); err != nil || !bytes.Equal(kept, content) {
				t.Errorf("%s: the snapshot was not quarantined: %v", what, err)
			}
		}
		if t.Failed() {
			t.Fatalf("failed with a damaged snapshot: %s", what)
		}
	}
	t.Logf("%d kinds of damage", len(damages))
}

// quarantined sets the contents of the profile's directory to these versions.
func quarantined(t *testing.T, r *fixture, versions map[int][]byte) {
	t.Helper()
	old, _ := filepath.Glob(filepath.Join(r.dir, "*.zst*"))
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for number, content := range versions {
		if err := os.WriteFile(r.path(number), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRestore_LogsDamagedSnapshotAndUsesPreviousVersion(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	r.save(t, sampleTree(2))
	corruptFile(t, r.path(2), 20)
	r.save(t, sampleTree(3))
	if !strings.Contains(r.log.String(), "profile data snapshot is damaged") || !strings.Contains(r.log.String(), r.path(2)+".bad") {
		t.Errorf("got log\n%s", r.log)
	}
	if got := fmt.Sprint(r.numbers(t)); got != "[3 1]" {
		t.Errorf("got versions %s", got)
	}
	assertTree(t, r.restored(t), sampleTree(3))
}

func TestRestore_StartsEmptyAndLogsWhenNoSnapshotIsUsable(t *testing.T) {
	r := newFixture(t)
	for i := 1; i <= 3; i++ {
		r.save(t, sampleTree(i))
	}
	for i := 1; i <= 3; i++ {
		corruptFile(t, r.path(i), 20)
	}
	assertTree(t, r.restored(t), tree{})
	if !strings.Contains(r.log.String(), "no usable profile data snapshot is left") {
		t.Errorf("got log\n%s", r.log)
	}
	r.save(t, sampleTree(4))
	if got := fmt.Sprint(r.numbers(t)); got != "[4]" {
		t.Errorf("got versions %s", got)
	}
}

func TestQuarantine_KeepsFewDamagedSnapshots(t *testing.T) {
	r := newFixture(t)
	for i := 1; i <= 7; i++ {
		r.save(t, sampleTree(i))
		corruptFile(t, r.path(i), 20)
	}
	r.restored(t)
	left, _ := filepath.Glob(filepath.Join(r.dir, "*.bad"))
	if fmt.Sprint(left) != fmt.Sprint([]string{r.path(5) + ".bad", r.path(6) + ".bad", r.path(7) + ".bad"}) {
		t.Errorf("kept %v", left)
	}
}

func TestPrune_DamagedVersionsDoNotCount(t *testing.T) {
	r := newFixture(t)
	for i := 1; i <= 3; i++ {
		r.save(t, sampleTree(i))
	}
	c := r.claim(t)
	restore(t, c)
	corruptFile(t, r.path(2), -1)
	corruptFile(t, r.path(3), -1)
	if err := c.Save(t.Context(), sampleTree(4).write(t)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.numbers(t)); got != "[4 1]" {
		t.Errorf("got versions %s", got)
	}
}
