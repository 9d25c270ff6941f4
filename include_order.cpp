#include <pagoda/pagoda.hpp>
