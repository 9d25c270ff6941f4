// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <map>
#include <set>

#include "ptx/lexer.hpp"
#include "ptx/syntax.hpp"

namespace pagoda_test::ptx {
namespace {

/// Names that braces inside an entry declare, each with the unique name that replaces it.
struct scope {
  std::map<std::string, std::string, std::less<>> renamed;
  std::size_t first_statement = 0;
  std::size_t first_label = 0;
};

class parser {
 public:
  parser(std::string_view text, const std::string& file) : file_(file), tokens_(tokens_of(text, file)) {}

  module_syntax run() {
    while (!peek().is("")) parse_top_level();
    return std::move(module_);
  }

 private:
  const token& peek() const { return tokens_[at_]; }
  const token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  [[noreturn]] void fail(const std::string& why) const { throw load_error(file_, peek().line, why); }
  bool take(std::string_view text) {
    if (!peek().is(text)) return false;
    next();
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail("expected '" + std::string(text) + "', found '" + std::string(peek().text) + "'");
  }
  std::string word() {
    if (!peek().is_word()) fail("expected a name, found '" + std::string(peek().text) + "'");
    return std::string(next().text);
  }
  std::int64_t number() {
    const bool negative = take("-");
    std::string digits = word();
    const bool hex = digits.rfind("0x", 0) == 0 || digits.rfind("0X", 0) == 0;
    if (!digits.empty() && digits.back() == 'U') digits.pop_back();
    std::uint64_t value = 0;
    const char* begin = digits.data() + (hex ? 2 : 0);
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(begin, end, value, hex ? 16 : 10);
    if (error != std::errc{} || stop != end) fail("'" + digits + "' is not a whole number");
    return static_cast<std::int64_t>(negative ? ~value + 1 : value);
  }
  void skip_line() {
    const int line = peek().line;
    while (!peek().is("") && peek().line == line) next();
  }
  void skip_braces() {
    int depth = 0;
    do {
      depth += peek().is("{") ? 1 : peek().is("}") ? -1 : 0;
      if (peek().is("")) fail("braces do not close");
      next();
    } while (depth > 0);
  }

  void parse_top_level() {
    const std::string_view text = peek().text;
    if (text == ".version" || text == ".target" || text == ".address_size" || text == ".file" || text == ".loc") {
      skip_line();
    } else if (text == ".visible" || text == ".extern" || text == ".weak" || text == ".common") {
      next();
    } else if (text == ".section" || text == ".func") {
      while (!peek().is("{") && !peek().is(";") && !peek().is("")) next();
      if (!take(";")) skip_braces();
    } else if (text == ".pragma") {
      while (!take(";")) next();
    } else if (text == ".entry") {
      parse_entry();
    } else if (text == ".shared" || text == ".global" || text == ".const") {
      module_.variables.push_back(parse_variable());
      expect(";");
    } else {
      fail("unknown directive '" + std::string(text) + "'");
    }
  }

  static int bytes_of_type(std::string_view type) {
    const std::size_t digits = type.find_first_of("0123456789");
    return digits == std::string_view::npos ? 0 : std::stoi(std::string(type.substr(digits))) / 8;
  }

  /// `.shared .align 16 .b8 name[64]`, with an initializer if it is global; the end is not consumed.
  variable parse_variable() {
    const std::string space = word();
    variable result;
    result.space = space == ".shared"  ? variable_space::shared
                   : space == ".local" ? variable_space::local
                   : space == ".param" ? variable_space::parameter
                                       : variable_space::global;
    bool aligned = false;
    if (take(".align")) {
      result.align = number();
      aligned = true;
    }
    const int element = bytes_of_type(word());
    if (element == 0) fail("a variable of an unknown type");
    if (!aligned) result.align = element;
    if (take(".ptr")) {
      while (!peek().is_word() || peek().text[0] == '.' || std::isdigit(static_cast<unsigned char>(peek().text[0])))
        next();
    }
    result.name = word();
    result.bytes = element;
    while (take("[")) {
      if (take("]")) {
        result.dynamic = true;
        continue;
      }
      result.bytes *= number();
      expect("]");
    }
    if (take("=")) parse_initial(result, element);
    return result;
  }

  void parse_initial(variable& to, int element) {
    const bool list = take("{");
    do {
      const std::string_view text = peek().text;
      std::uint64_t bits = 0;
      if (text.rfind("0f", 0) == 0 || text.rfind("0d", 0) == 0) {
        bits = std::stoull(std::string(next().text.substr(2)), nullptr, 16);
      } else {
        bits = static_cast<std::uint64_t>(number());
      }
      for (int b = 0; b < element; ++b) to.initial.push_back(static_cast<std::uint8_t>(bits >> (8 * b)));
    } while (take(","));
    if (list) expect("}");
    if (static_cast<std::int64_t>(to.initial.size()) > to.bytes) fail("more initial values than elements");
  }

  void parse_entry() {
    expect(".entry");
    entry_syntax entry;
    entry.line = peek().line;
    entry.name = word();
    if (take("(")) {
      while (!take(")")) {
        entry.variables.push_back(parse_variable());
        take(",");
      }
    }
    while (!peek().is("{")) {
      if (take(".maxntid") || take(".reqntid")) {
        entry.max_threads = 1;
        do entry.max_threads *= number();
        while (take(","));
      } else if (take(".minnctapersm") || take(".maxnreg")) {
        number();
      } else {
        fail("unknown directive '" + std::string(peek().text) + "' of an entry");
      }
    }
    expect("{");
    std::vector<scope> scopes(1);
    while (!scopes.empty()) parse_body(entry, scopes);
    module_.entries.push_back(std::move(entry));
  }

  void parse_body(entry_syntax& entry, std::vector<scope>& scopes) {
    const std::string_view text = peek().text;
    if (text.empty()) fail("the entry's braces do not close");
    if (take(";")) return;
    if (take("{")) {
      scopes.push_back({{}, entry.statements.size(), entry.labels.size()});
    } else if (take("}")) {
      close_scope(entry, scopes);
    } else if (text == ".reg") {
      next();
      word();  // the type: registers are 64 bits wide here
      do {
        std::string name = declare(word(), scopes);
        std::int64_t count = 0;
        if (take("<")) {
          count = number();
          expect(">");
        }
        entry.registers.push_back({std::move(name), count});
      } while (take(","));
      expect(";");
    } else if (text == ".local" || text == ".shared") {
      entry.variables.push_back(parse_variable());
      expect(";");
    } else if (text == ".loc" || text == ".file") {
      skip_line();
    } else if (text == ".pragma") {
      while (!take(";")) next();
    } else if (tokens_[at_ + 1].is(":")) {
      entry.labels.push_back({word(), entry.statements.size()});
      expect(":");
    } else if (text[0] == '.') {
      fail("unknown directive '" + std::string(text) + "' in an entry");
    } else {
      entry.statements.push_back(parse_statement(scopes));
    }
  }

  std::string declare(std::string name, std::vector<scope>& scopes) {
    if (scopes.size() == 1) return name;
    std::string unique = name + "#" + std::to_string(++unique_);
    scopes.back().renamed[std::move(name)] = unique;
    return unique;
  }

  /// Labels of nested braces are renamed once all jumps to them have been seen.
  void close_scope(entry_syntax& entry, std::vector<scope>& scopes) {
    const scope closed = std::move(scopes.back());
    scopes.pop_back();
    if (scopes.empty()) return;
    for (std::size_t i = closed.first_label; i < entry.labels.size(); ++i) {
      if (entry.labels[i].name.find('#') != std::string::npos) continue;
      const std::string unique = entry.labels[i].name + "#" + std::to_string(++unique_);
      for (std::size_t s = closed.first_statement; s < entry.statements.size(); ++s) {
        statement& jump = entry.statements[s];
        if (jump.opcode.rfind("bra", 0) == 0 && jump.operands[0].words[0] == entry.labels[i].name) {
          jump.operands[0].words[0] = unique;
        }
      }
      entry.labels[i].name = unique;
    }
  }

  std::string operand_word(const std::vector<scope>& scopes) {
    if (take("-")) return "-" + word();
    std::string name = word();
    for (auto s = scopes.rbegin(); s != scopes.rend(); ++s) {
      const auto found = s->renamed.find(name);
      if (found != s->renamed.end()) return found->second;
    }
    return name;
  }

  statement parse_statement(const std::vector<scope>& scopes) {
    statement result;
    if (take("@")) {
      result.negated = take("!");
      result.predicate = operand_word(scopes);
    }
    result.line = peek().line;
    result.opcode = word();
    if (take(";")) return result;
    do result.operands.push_back(parse_operand(scopes));
    while (take(","));
    expect(";");
    return result;
  }

  operand_syntax parse_operand(const std::vector<scope>& scopes) {
    operand_syntax result;
    if (take("{")) {
      do result.words.push_back(operand_word(scopes));
      while (take(","));
      expect("}");
      result.shape = static_cast<char>('0' + result.words.size());
    } else if (take("[")) {
      result.shape = 'a';
      result.words.push_back(operand_word(scopes));
      if (take("+"))
        result.offset = number();
      else if (peek().is("-"))
        result.offset = number();
      expect("]");
    } else {
      result.inverted = take("!");
      result.words.push_back(operand_word(scopes));
      if (take("|")) {
        result.shape = 'p';
        result.words.push_back(operand_word(scopes));
      } else if (take("+")) {
        result.offset = number();
      }
    }
    return result;
  }

  std::string file_;
  std::vector<token> tokens_;
  std::size_t at_ = 0;
  int unique_ = 0;
  module_syntax module_;
};

}  // namespace

module_syntax parse(std::string_view text, const std::string& file) {
  return parser(text, file).run();
}

}  // namespace pagoda_test::ptx
