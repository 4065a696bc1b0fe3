package profiledata_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// TestRestore_DamagedVersionNeverReplacesGoodOne damages each object of the current version
// in many ways. It checks that the previous version is restored, and that the damaged one is
// quarantined.
func TestRestore_DamagedVersionNeverReplacesGoodOne(t *testing.T) {
	r := newFixture(t)
	r.save(t, large(1))
	r.save(t, large(2))
	objects, err := filepath.Glob(filepath.Join(r.path(2), "*"))
	if err != nil || len(objects) < 3 {
		t.Fatalf("version 2 has the objects %v, %v", objects, err)
	}
	kinds := 0
	for _, path := range objects {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, content := range damages(whole) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			assertTree(t, r.restored(t), large(1))
			if got := fmt.Sprint(r.numbers(t)); got != "[1]" {
				t.Errorf("got versions %s", got)
			}
			if err := os.Rename(r.path(2)+".bad", r.path(2)); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("failed with %s: %s", filepath.Base(path), what)
			}
			kinds++
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	assertTree(t, r.restored(t), large(2))
	t.Logf("%d kinds of damage", kinds)
}

// damages returns an object with every kind of damage.
func damages(whole []byte) map[string][]byte {
	n := len(whole)
	all := map[string][]byte{
		"empty": {}, "zeros": make([]byte, n), "longer": append(bytes.Clone(whole), 0), "twice": bytes.Repeat(whole, 2),
		"a hole": append(append(bytes.Clone(whole[:n/2]), make([]byte, 16)...), whole[n/2+16:]...),
	}
	for _, offset := range []int{1, 12, 17, n / 3, n / 2, n - 16, n - 1} {
		all[fmt.Sprintf("cut at %d", offset)] = whole[:offset]
		all[fmt.Sprintf("without its first %d", offset)] = whole[offset:]
	}
	for _, offset := range []int{0, 11, 12, 13, 28, n / 4, n / 2, n - 17, n - 16, n - 1} {
		flipped := bytes.Clone(whole)
		flipped[offset] ^= 1 << (offset % 8)
		all[fmt.Sprintf("flipped at %d", offset)] = flipped
	}
	return all
}

// TestSave_ReplacesSharedChunkThatWasDamaged damages a chunk after the restore that the next
// version would share.
func TestSave_ReplacesSharedChunkThatWasDamaged(t *testing.T) {
	r := newFixture(t)
	data := large(1)
	data["Default/large"] = file(randomText(1, 5<<20))
	r.save(t, data)
	h := r.claim(t)
	restore(t, h)
	for _, path := range allChunks(t, r.path(1)) {
		corruptFile(t, path, 100)
	}
	data["Default/new"] = file("new")
	if err := h.Save(t.Context(), data.write(t)); err != nil {
		t.Fatal(err)
	}
	h.Release()
	assertTree(t, r.restored(t), data)
}

// allChunks returns the paths of the chunks in the directory of a version.
func allChunks(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, strings.Repeat("?", 64)))
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has no chunk: %v", dir, err)
	}
	return all
}

func TestRestore_LogsDamagedSnapshotAndUsesPreviousVersion(t *testing.T) {
	r := newFixture(t)
	r.save(t, sampleTree(1))
	r.save(t, sampleTree(2))
	corruptFile(t, r.chunk(t, 2), 20)
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
		corruptFile(t, r.chunk(t, i), 20)
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
		corruptFile(t, r.chunk(t, i), 20)
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
	corruptFile(t, r.manifest(2), -1)
	corruptFile(t, r.manifest(3), -1)
	if err := c.Save(t.Context(), sampleTree(4).write(t)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.numbers(t)); got != "[4 1]" {
		t.Errorf("got versions %s", got)
	}
}
