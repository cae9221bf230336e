"""Texts to tokenize, made the same way on every machine: DIR/{english,code,cjk,mixed}.txt.

English and code come from Python's own documentation and library (they are on every machine that runs the bench, and
are real text); Chinese, Japanese and the smaller languages are sentences put together from the lists below with a fixed
generator, so that runs of characters hardly repeat and words do. `mixed` takes paragraphs of all of them: English 34 %,
code 26, CJK 18, Russian and German 9, JSON 8, Arabic, Hindi, Thai and emoji 5.
"""
import glob
import json
import os
import sys
import sysconfig

ZH = """我们 他们 系统 数据 问题 时间 可以 没有 一个 这个 进行 使用 通过 需要 模型 缓存 服务 请求 用户 结果 方法 如果 因为 所以 但是 而且 已经 开始 可能
工作 公司 技术 中国 发展 社会 经济 国家 世界 人民 学习 研究 提高 重要 主要 不同 同时 之间 关系 情况 部分 方面 其中 以及 对于 根据 由于 为了 的 了 是
在 和 有 不 也 就 都 很 把 被 从 到 对 与 或 更 最 还 只 又 再 前缀 复用 调度 节点 内存 网络 延迟 吞吐 批处理 推理 显存 计算 优化 配置 日志 错误 测试 性能
第一次 机器学习 人工智能 分布式系统 上下文 长度 令牌 采样 温度 城市 天气 今天 明天 早上 晚上 朋友 老师 学生 孩子 音乐 电影 书籍 历史 文化 艺术 健康 医院""".split()
JA = """私たち これは それは システム データ 時間 問題 方法 使用 する します できる ない という ように ために から まで です ます サーバー リクエスト モデル
キャッシュ ユーザー 結果 性能 テスト の は が を に で と も へ や 今日 明日 学校 先生 学生 音楽 映画 日本 東京 世界 言葉 考える 見る 聞く 話す 書く 読む""".split()
RU = """это система данные время который может быть если запрос ответ модель сервер пользователь работа язык слово год человек день город новый первый большой
только после также через между сейчас и в не на что с по как из от для""".split()
DE = """das System die Daten der Benutzer eine Anfrage wird verarbeitet wenn Zeit Geschwindigkeit Zwischenspeicher und oder nicht auch durch über größer schön
Straße Verbindung Ergebnis Messung dass können müssen Sprachmodell Vorhersage""".split()
OTHER = ["مرحبا بالعالم هذا نص قصير للقياس", "नमस्ते दुनिया यह एक छोटा पाठ है", "สวัสดีชาวโลกนี่คือข้อความสั้นๆ", "🙂🚀✨ 👩‍💻 🇩🇪 👍🏽", "안녕하세요 세계 이것은 짧은 글입니다"]


class Draw:
    """xorshift64*: the same everywhere."""

    def __init__(self, seed):
        self.x = seed

    def below(self, n):
        self.x ^= self.x >> 12
        self.x = (self.x ^ self.x << 25) & (1 << 64) - 1
        self.x ^= self.x >> 27
        return (self.x * 2685821657736338717 >> 32 & 0xFFFFFFFF) * n >> 32

    def word(self, words):  # the front of the list oftener
        return words[min(self.below(len(words)), self.below(len(words)))]


def sentence(draw, words, joint, stop):
    parts = [joint.join(draw.word(words) for _ in range(3 + draw.below(9))) for _ in range(1 + draw.below(3))]
    return ("，" if not joint else ", ").join(parts) + stop


def paragraphs_of(text, size=1500):
    return [text[i:i + size] for i in range(0, len(text), size)]


def read(paths):
    out = []
    for path in paths:
        with open(path, encoding="utf-8", errors="ignore") as f:
            out.append(f.read())
    return "\n".join(out)


def stdlib():
    folder = sysconfig.get_path("stdlib")
    return sorted(glob.glob(f"{folder}/*.py") + glob.glob(f"{folder}/asyncio/*.py") + glob.glob(f"{folder}/email/*.py"))


def english():
    import pydoc_data.topics
    text = "\n".join(pydoc_data.topics.topics[k] for k in sorted(pydoc_data.topics.topics))
    return text + read(sorted(p for p in glob.glob("/usr/share/common-licenses/*") if os.path.isfile(p)))


def record(draw, i):
    return json.dumps({"id": i, "role": ["user", "assistant", "tool"][draw.below(3)], "score": draw.below(100000) / 1000,
                       "tags": [draw.word(DE), draw.word(RU)], "ok": draw.below(2) == 0,
                       "text": sentence(draw, DE, " ", ".")}, ensure_ascii=False) + "\n"


def filled(size, make):
    out, n = [], 0
    while n < size:
        out.append(make(len(out)))
        n += len(out[-1].encode())
    return out


def main():
    folder, size = sys.argv[1], int(sys.argv[2])
    draw = Draw(88172645463325252)
    en, code = paragraphs_of(english()), paragraphs_of(read(stdlib()))
    kinds = [
        ("english", 34, lambda i: en[i % len(en)]),
        ("code", 26, lambda i: code[i % len(code)]),
        ("cjk", 18, lambda i: "".join(sentence(draw, JA if draw.below(3) == 0 else ZH, "", "。") for _ in range(8)) + "\n"),
        ("europe", 9, lambda i: "".join(sentence(draw, RU if i % 2 else DE, " ", ". ") for _ in range(6)) + "\n"),
        ("json", 8, lambda i: record(draw, i)),
        ("other", 5, lambda i: OTHER[draw.below(len(OTHER))] + " "),
    ]
    os.makedirs(folder, exist_ok=True)
    mixed = []
    for name, share, make in kinds:
        parts = filled(size if share >= 18 else size * share // 100, make)
        if share >= 18:
            with open(f"{folder}/{name}.txt", "w", encoding="utf-8", newline="") as f:
                f.write("".join(parts))
        mixed += filled(size * share // 100, lambda i: parts[i % len(parts)])
    for i in range(len(mixed) - 1, 0, -1):
        j = draw.below(i + 1)
        mixed[i], mixed[j] = mixed[j], mixed[i]
    with open(f"{folder}/mixed.txt", "w", encoding="utf-8", newline="") as f:
        f.write("".join(mixed))


if __name__ == "__main__":
    main()
