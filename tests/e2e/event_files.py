# event_files.py RUN [START...]: the event files in the folder of a run hold every number of its log.jsonl, each at
# its step, as an f32, no more and no less; a START record stands at each step that is given. Read by a reader
# that is written from the formats' description, and by TensorBoard's own where it is installed. Called by logs.sh.
import glob, json, logging, math, os, struct, sys

run, starts = sys.argv[1], [int(s) for s in sys.argv[2:]]


def expected():
    scalars = {}
    for line in open(os.path.join(run, "log.jsonl"), encoding="utf-8"):
        r = json.loads(line)
        if r["event"] not in ("step", "eval"):
            continue
        group = "train/" if r["event"] == "step" else "eval/" + r["set"] + "/"
        for key, value in r.items():
            apart = key in ("event", "step", "epoch", "set", "samples", "seconds", "finite")
            if not apart and value is not None and not isinstance(value, (bool, list)):
                bits = struct.pack("<f", float(value))
                scalars.setdefault(group + key, []).append((r["step"], bits))
    return scalars


def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = (c >> 1) ^ 0x82F63B78 if c & 1 else c >> 1
    c ^= 0xFFFFFFFF
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(b, at):
    value = shift = 0
    while True:
        value |= (b[at] & 0x7F) << shift
        shift += 7
        at += 1
        if b[at - 1] < 0x80:
            return value, at


def fields(b):
    at = 0
    while at < len(b):
        key, at = varint(b, at)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            value, at = varint(b, at)
        else:
            if size is None:
                size, at = varint(b, at)
            value, at = b[at : at + size], at + size
        yield key >> 3, value


def events():
    for path in sorted(glob.glob(os.path.join(run, "events.out.tfevents.*"))):
        data, at, walls = open(path, "rb").read(), 0, []
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            body = data[at + 12 : at + 12 + size]
            assert struct.unpack_from("<I", data, at + 8)[0] == crc(data[at : at + 8]), "CRC of a length"
            assert struct.unpack_from("<I", data, at + 12 + size)[0] == crc(body), "CRC of a record"
            at += 16 + size
            event = list(fields(body))
            walls.append(struct.unpack("<d", dict(event)[1])[0])
            yield event
        assert walls == sorted(walls), "wall times run backwards"


def read_plainly():
    scalars, seen = {}, []
    for event in events():
        step = dict(event).get(2, 0)
        for number, value in event:
            if number == 7:
                seen.append(step)
                for tag in scalars:
                    scalars[tag] = [s for s in scalars[tag] if s[0] < step]
            for _, one in fields(value) if number == 5 else ():
                one = dict(fields(one))
                scalars.setdefault(one[1].decode(), []).append((step, one[2]))
    assert not starts or seen == starts, f"starts at {seen}"
    return scalars


def read_by_tensorboard():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("tensorboard").addHandler(handler)
    reader = EventAccumulator(run, size_guidance={"scalars": 0})
    reader.Reload()
    said = [s for s in said if "purging" not in s.lower() and not s.startswith("No path found")]
    assert not said, said
    return {
        tag: [(e.step, struct.pack("<f", e.value)) for e in reader.Scalars(tag)]
        for tag in reader.Tags()["scalars"]
    }


def same(a, b):
    x, y = struct.unpack("<f", a)[0], struct.unpack("<f", b)[0]
    return x == y or (math.isnan(x) and math.isnan(y))


def compare(who, read):
    want = expected()
    assert set(want) == set(read), f"{who}: tags {set(want) ^ set(read)}"
    for tag, points in want.items():
        have = read[tag]
        if tag.startswith("eval/"):  # one behind the last pass before a checkpoint is made again
            have = [p for i, p in enumerate(have) if i == 0 or p != have[i - 1]]
        assert [s for s, _ in points] == [s for s, _ in have], f"{who}: {tag}: steps"
        for (step, a), (_, b) in zip(points, have):
            assert same(a, b), f"{who}: {tag}: step {step}"


compare("plain reader", read_plainly())
try:
    import tensorboard
except ImportError:
    print("tensorboard is not installed")
else:
    compare("TensorBoard", read_by_tensorboard())
