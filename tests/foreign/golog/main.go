// golog judges an export with golang.org/x/mod/sumdb, which shares no code with Lethe.
//
//	golog check FOLDER VKEY...         the note's signature (by one of the keys), every tile against
//	                                   the leaves of tile/entries, every inclusion from the tiles,
//	                                   every .tlog-proof
//	golog consistency FOLDER VKEY...   the proofs between any two sizes of the log
//
// Prints a line and exits 0 when all holds, prints "refused: ..." and exits 1 when something does not,
// 2 when it is used wrongly.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

type export struct {
	folder  string
	keys    []string
	note    []byte
	tree    tlog.Tree
	leaves  [][]byte
	stored  []tlog.Hash // tlog's own layout, made here from the leaves
	records []tlog.Hash
}

func fail(format string, arguments ...interface{}) error {
	return fmt.Errorf(format, arguments...)
}

// openCheckpoint verifies a checkpoint note and returns the tree that it states.
func openCheckpoint(text []byte, keys []string) (tlog.Tree, error) {
	var verifiers []note.Verifier
	name := ""
	for _, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return tlog.Tree{}, fail("a key: %v", err)
		}
		name = verifier.Name()
		verifiers = append(verifiers, verifier)
	}
	opened, err := note.Open(text, note.VerifierList(verifiers...))
	if err != nil {
		return tlog.Tree{}, fail("checkpoint: %v", err)
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] != name {
		return tlog.Tree{}, errors.New("checkpoint: not the three lines of this log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 1 || strconv.FormatInt(size, 10) != lines[1] {
		return tlog.Tree{}, errors.New("checkpoint: no size of at least 1")
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return tlog.Tree{}, errors.New("checkpoint: no root")
	}
	tree := tlog.Tree{N: size}
	copy(tree.Hash[:], root)
	return tree, nil
}

func tilePath(tile tlog.Tile) string {
	// tlog says tile/H/L/N, where the export has no H.
	return strings.Replace(tile.Path(), "tile/8/", "tile/", 1)
}

func load(folder string, keys []string) (*export, error) {
	text, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		return nil, err
	}
	e := &export{folder: folder, keys: keys, note: text}
	if e.tree, err = openCheckpoint(text, keys); err != nil {
		return nil, err
	}
	for index := int64(0); index*256 < e.tree.N; index++ {
		width := 256
		if e.tree.N-index*256 < 256 {
			width = int(e.tree.N - index*256)
		}
		name := tilePath(tlog.Tile{H: height, L: 0, N: index, W: width})
		name = strings.Replace(name, "tile/0/", "tile/entries/", 1)
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		for i := 0; i < width; i++ {
			if len(data) < 2 || len(data)-2 < int(data[0])<<8|int(data[1]) {
				return nil, fail("%s: ends early", name)
			}
			size := int(data[0])<<8 | int(data[1])
			e.leaves = append(e.leaves, data[2:2+size])
			data = data[2+size:]
		}
		if len(data) != 0 {
			return nil, fail("%s: too long", name)
		}
	}
	for i, leaf := range e.leaves {
		hashes, err := tlog.StoredHashes(int64(i), leaf, tlog.HashReaderFunc(e.read))
		if err != nil {
			return nil, err
		}
		e.stored = append(e.stored, hashes...)
		e.records = append(e.records, tlog.RecordHash(leaf))
	}
	return e, nil
}

func (e *export) read(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(e.stored)) {
			return nil, errors.New("no such hash")
		}
		out[i] = e.stored[index]
	}
	return out, nil
}

// tiles reads from the export's own tiles; tlog.TileHashReader checks them against the root.
type tiles struct{ folder string }

func (t tiles) Height() int                                { return height }
func (t tiles) SaveTiles(tiles []tlog.Tile, data [][]byte) {}
func (t tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, tile := range wanted {
		data, err := os.ReadFile(filepath.Join(t.folder, tilePath(tile)))
		if err != nil {
			return nil, err
		}
		if len(data) != tile.W*tlog.HashSize {
			return nil, fail("%s: has %d bytes", tilePath(tile), len(data))
		}
		out = append(out, data)
	}
	return out, nil
}

// envelopeLeaf is the log entry that a certificate's envelope stands for, made here from the format's
// description.
func envelopeLeaf(envelope []byte, keys []string) ([]byte, error) {
	var parsed struct {
		Payload    string `json:"payload"`
		Signatures []struct {
			Keyid string `json:"keyid"`
			Sig   string `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(envelope, &parsed); err != nil || len(parsed.Signatures) != 1 {
		return nil, errors.New("no envelope")
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(parsed.Payload)
	if err != nil {
		return nil, errors.New("payload: no base64")
	}
	for _, key := range keys {
		parts := strings.SplitN(key, "+", 3)
		if parsed.Signatures[0].Keyid != parts[0]+"+"+parts[1] {
			continue
		}
		public, err := base64.StdEncoding.DecodeString(parts[2])
		if err != nil {
			return nil, err
		}
		spki := append([]byte("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"), public[1:]...)
		digest := sha256.Sum256(payload)
		return []byte(fmt.Sprintf(`{"apiVersion":"0.0.2","kind":"dsse","spec":{"dsseV002":{`+
			`"payloadHash":{"algorithm":"SHA2_256","digest":"%s"},"signatures":[{"content":"%s",`+
			`"verifier":{"keyDetails":"PKIX_ED25519","publicKey":{"rawBytes":"%s"}}}]}}}`,
			base64.StdEncoding.EncodeToString(digest[:]), parsed.Signatures[0].Sig,
			base64.StdEncoding.EncodeToString(spki))), nil
	}
	return nil, errors.New("another key")
}

// checkProof judges a .tlog-proof by itself.
func checkProof(text []byte, index int64, leaf tlog.Hash, keys []string) error {
	const magic = "c2sp.org/tlog-proof@v1\n"
	rest := string(text)
	if !strings.HasPrefix(rest, magic) {
		return errors.New("no tlog-proof")
	}
	rest = rest[len(magic):]
	head := fmt.Sprintf("index %d\n", index)
	if !strings.HasPrefix(rest, head) {
		return errors.New("another index")
	}
	rest = rest[len(head):]
	blank := strings.Index(rest, "\n\n")
	if strings.HasPrefix(rest, "\n") {
		blank = -1
	}
	var proof tlog.RecordProof
	if blank >= 0 {
		for _, line := range strings.Split(rest[:blank], "\n") {
			hash, err := tlog.ParseHash(line)
			if err != nil {
				return err
			}
			proof = append(proof, hash)
		}
		rest = rest[blank+1:]
	}
	tree, err := openCheckpoint([]byte(rest[1:]), keys)
	if err != nil {
		return err
	}
	if index >= tree.N {
		return errors.New("the index is beyond the size")
	}
	return tlog.CheckRecord(proof, tree.N, tree.Hash, index, leaf)
}

func check(e *export) error {
	root, err := tlog.TreeHash(e.tree.N, tlog.HashReaderFunc(e.read))
	if err != nil {
		return err
	}
	if root != e.tree.Hash {
		return errors.New("the entries do not make the checkpoint's root")
	}
	// Each tile by itself, and each inclusion through the tiles.
	for level := 0; e.tree.N>>uint(height*level) > 0; level++ {
		count := e.tree.N >> uint(height*level)
		for index := int64(0); index*256 < count; index++ {
			width := 256
			if count-index*256 < 256 {
				width = int(count - index*256)
			}
			tile := tlog.Tile{H: height, L: level, N: index, W: width}
			want, err := tlog.ReadTileData(tile, tlog.HashReaderFunc(e.read))
			if err != nil {
				return err
			}
			have, err := os.ReadFile(filepath.Join(e.folder, tilePath(tile)))
			if err != nil {
				return err
			}
			if !bytes.Equal(want, have) {
				return fail("%s: other hashes", tilePath(tile))
			}
		}
	}
	reader := tlog.TileHashReader(e.tree, tiles{e.folder})
	for i := int64(0); i < e.tree.N; i++ {
		proof, err := tlog.ProveRecord(e.tree.N, i, reader)
		if err != nil {
			return fail("inclusion of %d: %v", i, err)
		}
		if err := tlog.CheckRecord(proof, e.tree.N, e.tree.Hash, i, e.records[i]); err != nil {
			return fail("inclusion of %d: %v", i, err)
		}
		base := filepath.Join(e.folder, "certificates", fmt.Sprintf("%03d", i/1000), fmt.Sprintf("%06d", i))
		envelope, err := os.ReadFile(base + ".envelope.json")
		if err != nil {
			return err
		}
		leaf, err := envelopeLeaf(envelope, e.keys)
		if err != nil {
			return fail("envelope of %d: %v", i, err)
		}
		if !bytes.Equal(leaf, e.leaves[i]) {
			return fail("envelope of %d: another entry", i)
		}
		text, err := os.ReadFile(base + ".tlog-proof")
		if err != nil {
			return err
		}
		if err := checkProof(text, i, e.records[i], e.keys); err != nil {
			return fail("tlog-proof of %d: %v", i, err)
		}
	}
	fmt.Printf("ok: signature, %d inclusions from tiles, %d tlog-proofs\n", e.tree.N, e.tree.N)
	return nil
}

// consistency proves and checks the step between any two sizes, and between each size and itself.
func consistency(e *export) error {
	roots := make([]tlog.Hash, e.tree.N+1)
	for n := int64(1); n <= e.tree.N; n++ {
		root, err := tlog.TreeHash(n, tlog.HashReaderFunc(e.read))
		if err != nil {
			return err
		}
		roots[n] = root
	}
	if roots[e.tree.N] != e.tree.Hash {
		return errors.New("the entries do not make the checkpoint's root")
	}
	pairs := 0
	for n := int64(1); n <= e.tree.N; n++ {
		for m := int64(1); m <= n; m++ {
			proof, err := tlog.ProveTree(n, m, tlog.HashReaderFunc(e.read))
			if err != nil {
				return fail("%d to %d: %v", m, n, err)
			}
			if err := tlog.CheckTree(proof, n, roots[n], m, roots[m]); err != nil {
				return fail("%d to %d: %v", m, n, err)
			}
			pairs++
		}
	}
	fmt.Printf("ok: %d pairs of sizes consistent\n", pairs)
	return nil
}

// proofs judges consistency proofs that Lethe made: lines "m n root_m root_n hash,hash,..." in base64.
func proofs(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pairs := 0
	for _, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		fields := strings.Split(line, " ")
		if len(fields) != 5 {
			return errors.New("not five fields")
		}
		m, err1 := strconv.ParseInt(fields[0], 10, 64)
		n, err2 := strconv.ParseInt(fields[1], 10, 64)
		old, err3 := tlog.ParseHash(fields[2])
		root, err4 := tlog.ParseHash(fields[3])
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			return fail("line %d: malformed", pairs+1)
		}
		var proof tlog.TreeProof
		if fields[4] != "-" {
			for _, text := range strings.Split(fields[4], ",") {
				hash, err := tlog.ParseHash(text)
				if err != nil {
					return err
				}
				proof = append(proof, hash)
			}
		}
		if err := tlog.CheckTree(proof, n, root, m, old); err != nil {
			return fail("%d to %d: %v", m, n, err)
		}
		pairs++
	}
	fmt.Printf("ok: %d consistency proofs\n", pairs)
	return nil
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "proofs" {
		if err := proofs(os.Args[2]); err != nil {
			fmt.Println("refused:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) < 4 || (os.Args[1] != "check" && os.Args[1] != "consistency") {
		fmt.Fprintln(os.Stderr, "usage: golog check|consistency FOLDER VKEY... | golog proofs FILE")
		os.Exit(2)
	}
	e, err := load(os.Args[2], os.Args[3:])
	if err == nil && os.Args[1] == "check" {
		err = check(e)
	} else if err == nil {
		err = consistency(e)
	}
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
}
